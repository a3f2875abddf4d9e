import type { ClusterLogin } from "../../contracts/cluster-acl.ts";
import type { AuthMethod } from "../../contracts/cluster-auth-method.ts";
import type { ClusterTokenBody } from "../../contracts/tokens.ts";
import { type Result, refuse } from "../../lib/result.ts";
import { filled, readTemplate } from "../../lib/template.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { WRAPPING_POLICY_NAME } from "../policies/policy-parser.ts";
import type { PolicyStore } from "../policies/policy-store.ts";
import type { BindingRules, Bindings } from "./binding-rules.ts";
import type { ClusterAuthMethods } from "./cluster-auth-methods.ts";
import type { ClusterRoles } from "./cluster-roles.ts";
import type { ClusterTokens } from "./cluster-tokens.ts";

const MAX_NAME = 256;

/** Issues the tokens of verified logins of the cluster API (https://developer.hashicorp.com/nomad/api-docs/acl/login). */
export class ClusterLogins {
  constructor(
    private readonly methods: ClusterAuthMethods,
    private readonly rules: BindingRules,
    private readonly roles: ClusterRoles,
    private readonly policies: PolicyStore,
    private readonly tokens: ClusterTokens,
  ) {}

  /** @throws Sealed */
  login({ method: name, version, claims }: ClusterLogin): Result<{ accessor: string; secret: string }> {
    const method = this.methods.read(name);
    // It may have been changed since it verified the credentials.
    if (!method || method.version !== version) return refuse("denied", "permission denied");
    const bound = this.rules.bind(name, claims, Object.values(method.Config.ClaimMappings));
    if (!bound.ok) return bound;
    const given = this.#existing(bound.value);
    if (!given.management && given.roles.length === 0 && given.policies.length === 0) {
      return refuse("invalid", "no role or policy bindings matched");
    }
    const made = this.tokens.create(tokenOf(method, claims.value, given), { path: "v1/acl/login", readable: false });
    if (made.ok) recordAction("login", { accessor: made.value.accessor, method: name });
    return made;
  }

  /** The ids of roles and names of policies that exist. Nothing but a rule of its own type makes a management token. */
  #existing({ management, roles, policies }: Bindings): Bindings {
    const isPolicy = (name: string): boolean =>
      name !== "root" && name !== WRAPPING_POLICY_NAME && this.policies.find("", name) !== null;
    return {
      management,
      roles: roles.flatMap((role) => this.roles.read({ name: role })?.ID ?? []),
      policies: policies.filter(isPolicy),
    };
  }
}

const tokenOf = (
  method: AuthMethod,
  claims: Readonly<Record<string, string>>,
  { management, roles, policies }: Bindings,
): ClusterTokenBody => ({
  Name: tokenName(method, claims),
  Type: management ? "management" : "client",
  Policies: policies,
  Roles: roles.map((ID) => ({ ID, Name: "" })),
  Global: method.TokenLocality === "global",
  ExpirationTTL: method.MaxTokenTTL,
});

function tokenName({ Name, Type, TokenNameFormat }: AuthMethod, claims: Readonly<Record<string, string>>): string {
  const claimOf = (name: string): string => (Object.hasOwn(claims, name) ? (claims[name] ?? "") : "");
  const name = filled(readTemplate(TokenNameFormat) ?? [], (variable) => {
    if (variable === "auth_method_type") return Type;
    return variable === "auth_method_name" ? Name : claimOf(variable.slice("value.".length));
  });
  return name.slice(0, MAX_NAME);
}
