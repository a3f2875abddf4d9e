import type { AuthEntryName, AuthMount, TokenSettings } from "../../contracts/auth.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { AuthEntries } from "../auth-methods/auth-entries.ts";
import type { AuthMountTable } from "../auth-methods/auth-mounts.ts";
import type { TokenMethods } from "../auth-methods/token-methods.ts";
import { lesserOf } from "./role-rules.ts";
import { policiesOf, SYSTEM_MAX_TTL, type TokenLimits, type TokenRow } from "./token.ts";
import type { TokenRoles } from "./token-roles.ts";

/**
 * The limits for a renewal: those of the auth method, and of the user, the login role or the token role, as they are now.
 * A token is not renewed once its user or role is deleted.
 */
export class RenewalLimits {
  constructor(
    private readonly mounts: AuthMountTable,
    private readonly entries: AuthEntries,
    private readonly roles: TokenRoles,
    private readonly methods: TokenMethods,
  ) {}

  /** The limits that differ from the token's own. @throws Sealed */
  of(row: TokenRow): Result<Partial<TokenLimits>> {
    if (row.auth_mount !== null) return this.#ofLogin(entryOf(row), row);
    const { max_lease_ttl: maxTtl } = this.methods.limits(row.namespace);
    if (row.role === null) return ok({ maxTtl });
    const role = this.roles.get(row.namespace, row.role);
    return role
      ? ok({ maxTtl, explicitMaxTtl: role.token_explicit_max_ttl, period: role.token_period })
      : refuse("invalid", `original token role ${JSON.stringify(row.role)} could not be found, not renewing`);
  }

  #ofLogin(entry: AuthEntryName, row: TokenRow): Result<TokenLimits> {
    const mount = this.mounts.byUuid(entry.mount);
    const text = mount && this.entries.get(entry);
    if (!mount || text === null) return refuse("invalid", "the role or user of this token is gone, not renewing");
    const settings = JSON.parse(text) as TokenSettings;
    // As upstream: roles are compared by no method that is offered here.
    if (entry.kind === "user" && !samePolicies(policiesOf(row), settings.token_policies)) {
      return refuse("invalid", "policies have changed, not renewing");
    }
    return ok({ ...loginLimits(settings, mount), explicitMaxTtl: row.explicit_max_ttl });
  }
}

/** The limits of a login's token. The mount bounds its roles, whose authors may not change the mount
 * (https://developer.hashicorp.com/vault/docs/concepts/tokens#the-general-case). */
export function loginLimits(settings: TokenSettings, { config }: AuthMount): TokenLimits {
  const maxTtl = lesserOf(settings.token_max_ttl, config.max_lease_ttl || SYSTEM_MAX_TTL);
  return {
    ttl: settings.token_ttl || config.default_lease_ttl,
    maxTtl,
    period: Math.min(settings.token_period, maxTtl),
    explicitMaxTtl: settings.token_explicit_max_ttl,
  };
}

/** The user or role that a token was issued for. */
const entryOf = (row: TokenRow): AuthEntryName => {
  const [kind = "", ...name] = (row.auth_entry ?? "").split(" ");
  return { mount: row.auth_mount ?? "", kind, name: name.join(" ") };
};

const samePolicies = (held: readonly string[], granted: readonly string[]): boolean =>
  new Set([...held, "default"]).symmetricDifference(new Set([...granted, "default"])).size === 0;
