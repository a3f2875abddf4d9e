import type { WriteRights } from "../../contracts/kv-store.ts";
import type { TokenRole, TokenRoleBody } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { TokenMethods } from "../auth-methods/token-methods.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { column } from "../rows.ts";
import { policyNames, SYSTEM_MAX_TTL } from "./token.ts";

const NAME = /^\w(?:[\w.-]{0,126}\w)?$/;
const SUFFIX = /^\w[\w.-]+\w$/;
/** Roles are rows of one table, and a listing is one answer. */
const MAX_ROLES = 10_000;

const NEW_ROLE: Omit<TokenRole, "name"> = {
  allowed_policies: [],
  allowed_policies_glob: [],
  disallowed_policies: [],
  disallowed_policies_glob: [],
  allowed_entity_aliases: [],
  orphan: false,
  renewable: true,
  path_suffix: "",
  token_type: "default-service",
  token_period: 0,
  token_explicit_max_ttl: 0,
  token_num_uses: 0,
  token_no_default_policy: false,
  token_bound_cidrs: [],
  period: 0,
  explicit_max_ttl: 0,
  bound_cidrs: [],
};

/**
 * The roles of `auth/token`, by namespace (https://developer.hashicorp.com/vault/api-docs/auth/token). One row each,
 * read when a token of the role is created or renewed.
 */
export class TokenRoles {
  constructor(
    private readonly sql: SqlStorage,
    private readonly namespaces: NamespaceTree,
    private readonly methods: TokenMethods,
    private readonly commit: ObjectContext["commit"],
  ) {}

  get(namespace: string, name: string): TokenRole | null {
    const query = "SELECT value FROM token_roles WHERE namespace = ? AND name = ?";
    const [value] = column(this.sql, query, namespace, name);
    return value === undefined ? null : { ...NEW_ROLE, ...(JSON.parse(value) as TokenRole) };
  }

  names(namespace: string): string[] {
    return column(this.sql, "SELECT name FROM token_roles WHERE namespace = ? ORDER BY name", namespace);
  }

  /**
   * Creates a role, or changes the fields that the request names.
   * @returns warnings about fields that have no effect
   */
  put(namespace: string, name: string, body: TokenRoleBody, rights?: WriteRights): Result<string[]> {
    if (!NAME.test(name)) return refuse("invalid", "role_name: must be 1 to 128 of A-Z a-z 0-9 _ . -");
    const admitted = this.namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const before = this.get(namespace, name);
    // A Worker of the version before does not say its caller's.
    if (rights && !(before ? rights.update : rights.create)) return refuse("denied", "permission denied");
    if (!before && this.names(namespace).length >= MAX_ROLES) {
      return refuse("invalid", `role_name: a namespace holds at most ${MAX_ROLES} roles`);
    }
    const role = changed(before ?? { ...NEW_ROLE, name }, body);
    if (!role.ok) return role;
    this.commit(() =>
      this.sql.exec(
        `INSERT INTO token_roles (namespace, name, value) VALUES (?, ?, ?)
         ON CONFLICT (namespace, name) DO UPDATE SET value = excluded.value`,
        namespace,
        name,
        JSON.stringify(role.value),
      ),
    );
    return ok(warningsOf(role.value, body, this.methods.limits(namespace).max_lease_ttl || SYSTEM_MAX_TTL));
  }

  /** Idempotent. Tokens of the role live on; they are not renewed. */
  delete(namespace: string, name: string): void {
    this.commit(() => this.sql.exec("DELETE FROM token_roles WHERE namespace = ? AND name = ?", namespace, name));
  }

  /** Deletes the roles of a namespace and the settings of its method, inside the caller's transaction. */
  deleteNamespace(namespace: string): void {
    this.sql.exec("DELETE FROM token_roles WHERE namespace = ?", namespace);
    this.methods.deleteNamespace(namespace);
  }
}

/** The `data` of a role, as upstream answers it: some fields only when they are set. */
export function roleView(role: TokenRole): Record<string, unknown> {
  const { token_num_uses, token_bound_cidrs, bound_cidrs, ...shown } = role;
  return {
    ...shown,
    ...(token_num_uses > 0 && { token_num_uses }),
    ...(token_bound_cidrs.length > 0 && { token_bound_cidrs }),
    ...(bound_cidrs.length > 0 && { bound_cidrs }),
  };
}

function changed(before: TokenRole, body: TokenRoleBody): Result<TokenRole> {
  const lists: Partial<Record<PolicyList, string[]>> = {};
  for (const field of POLICY_LISTS) {
    const given = body[field];
    if (given === undefined || given === null) continue;
    const names = policyNames(given);
    if (!names.ok) return refuse("invalid", names.message?.replace("policies", field) ?? field);
    lists[field] = names.value.sort();
  }
  const suffix = body.path_suffix ?? before.path_suffix;
  if (suffix !== "" && (!SUFFIX.test(suffix) || suffix.length > 128 || suffix.includes(".."))) {
    return refuse(
      "invalid",
      "path_suffix: given role path suffix contains invalid characters; must match \\w[\\w-.]+\\w",
    );
  }
  const role: TokenRole = {
    ...before,
    ...lists,
    orphan: body.orphan ?? before.orphan,
    renewable: body.renewable ?? before.renewable,
    path_suffix: suffix,
    token_type: body.token_type ?? before.token_type,
    token_num_uses: body.token_num_uses ?? before.token_num_uses,
    token_no_default_policy: body.token_no_default_policy ?? before.token_no_default_policy,
    ...renamed("token_period", "period", before, body),
    ...renamed("token_explicit_max_ttl", "explicit_max_ttl", before, body),
    ...renamed("token_bound_cidrs", "bound_cidrs", before, body),
  };
  const problem = batchProblem(role);
  return problem === null ? ok(role) : refuse("invalid", problem);
}

type PolicyList = (typeof POLICY_LISTS)[number];
const POLICY_LISTS = [
  "allowed_policies",
  "allowed_policies_glob",
  "disallowed_policies",
  "disallowed_policies_glob",
  "allowed_entity_aliases",
] as const;

/** A field with an older name, which is shown as it was given. The newer name decides when a request has both. */
function renamed<Current extends keyof TokenRole, Older extends keyof TokenRole & keyof TokenRoleBody>(
  current: Current & keyof TokenRoleBody,
  older: Older,
  before: TokenRole,
  body: TokenRoleBody,
): Partial<TokenRole> {
  const [given, legacy] = [body[current] ?? undefined, body[older] ?? undefined];
  if (given !== undefined) return { [current]: given, [older]: NEW_ROLE[older as keyof typeof NEW_ROLE] };
  return legacy === undefined
    ? { [current]: before[current], [older]: before[older] }
    : { [current]: legacy, [older]: legacy };
}

function batchProblem(role: TokenRole): string | null {
  if (role.token_type !== "batch") return null;
  const fault = !role.orphan
    ? "non-orphan tokens"
    : role.token_period > 0
      ? "periodic tokens"
      : role.renewable
        ? "renewable tokens"
        : role.token_explicit_max_ttl > 0
          ? "tokens with an explicit max TTL"
          : null;
  return fault === null ? null : `'token_type' cannot be 'batch' when role is set to generate ${fault}`;
}

const RENAMED = ["period", "bound_cidrs", "explicit_max_ttl"] as const;

/** @param most the maximum TTL of the method, in seconds */
function warningsOf(role: TokenRole, body: TokenRoleBody, most: number): string[] {
  const warnings = RENAMED.filter((older) => body[older] != null && body[`token_${older}`] != null).map(
    (older) => `Both 'token_${older}' and deprecated '${older}' value supplied, ignoring the deprecated value`,
  );
  if (role.token_explicit_max_ttl > most) {
    warnings.push(
      `Given explicit max TTL of ${role.token_explicit_max_ttl} is greater than system/mount allowed value of ${most} seconds; tokens of this role get the smaller value`,
    );
  }
  return warnings;
}
