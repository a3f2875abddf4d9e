import type { AuthEntryName, AuthMount, Login, TokenSettings } from "../contracts/auth.ts";
import { type Authed, TOO_LONG_BATCH_TOKEN } from "../contracts/tokens.ts";
import { isWithinNetworks } from "../lib/networks.ts";
import { randomText } from "../lib/random-text.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import type { AuthEntries } from "./auth-entries.ts";
import { type AuthMountTable, DEFAULT_LOCKOUT } from "./auth-mounts.ts";
import { tokenUpserted } from "./cluster-acl.ts";
import type { Entities } from "./entities.ts";
import type { AccessPublisher } from "./event-publisher.ts";
import type { LoginLockouts } from "./login-lockouts.ts";
import { lesserOf } from "./role-rules.ts";
import {
  dedupe,
  expiryFor,
  type NewToken,
  policiesOf,
  policyNames,
  SYSTEM_MAX_TTL,
  type TokenLimits,
  type TokenRow,
} from "./token.ts";
import type { TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";
import type { UsedLoginStates } from "./used-login-states.ts";

interface Dependencies {
  readonly mounts: AuthMountTable;
  readonly entries: AuthEntries;
  readonly entities: Entities;
  readonly lockouts: LoginLockouts;
  readonly tokens: TokenStore;
  readonly rules: TokenRules;
  readonly usedStates: UsedLoginStates;
  readonly publisher: AccessPublisher;
}

/** Issues the tokens of verified logins. The entity, the token and its event are one transaction. */
export class Logins {
  readonly #deps: Dependencies;

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  /**
   * Issues the token of a login.
   * @param also changes of the same transaction
   * @throws Sealed
   */
  login(login: Login, also: () => void = () => {}): Result<Authed> {
    const { mounts, entries, entities, lockouts, tokens, rules, usedStates, publisher } = this.#deps;
    const now = Date.now();
    const mount = mounts.byUuid(login.entry.mount);
    // Either may have been removed since the credentials were verified.
    if (!mount || !entries.has(login.entry) || !this.#isCurrent(login)) return refuse("denied", "permission denied");
    const { settings, alias, once } = login;
    // Failures since the login began may have locked the name: guesses at the same time are not answered.
    const lockout = mount.config.user_lockout_config ?? DEFAULT_LOCKOUT;
    if (alias && lockouts.isLocked(mount.uuid, alias.name, lockout, now)) return refuse("denied", "permission denied");
    if (once && !usedStates.isUnused(mount.uuid, once.id, once.expires, now)) {
      return refuse("invalid", "Vault login failed. Expired or missing OAuth state.");
    }
    if (!isWithinNetworks(login.address, settings.token_bound_cidrs)) {
      return refuse("denied", "permission denied: the address is outside the bound networks");
    }
    if (isBatchLogin(settings, mount) && settings.token_num_uses > 0) {
      return refuse("invalid", 'batch tokens cannot have "num_uses" set');
    }
    const policies = policyNames(settings.token_policies);
    if (!policies.ok) return policies;
    if (alias) lockouts.clear(mount.uuid, alias.name);
    const secret = `hvs.${randomText(24)}`;
    return publisher.commit(() => {
      const { namespace } = mount;
      const entity =
        alias && entities.signIn({ namespace, mount: mount.accessor, ...alias, groups: login.groups }, now);
      if (entity && !entity.ok) return entity;
      if (once) usedStates.add(mount.uuid, once.id, once.expires, now);
      const { token, warnings } = newToken(mount, login, policies.value, entity?.value ?? "", now);
      const sealed = token.family === "batch" ? tokens.seal(token, null, now) : null;
      if (token.family === "batch" && sealed === null) return refuse("invalid", TOO_LONG_BATCH_TOKEN);
      const row = sealed?.row ?? tokens.insert(secret, token);
      also();
      // No row, no event: a batch token is known to its holder alone.
      if (!sealed) publisher.emit([tokenUpserted(row)], [{ token: row.accessor }]);
      const auth = rules.authBlock(row, sealed?.secret ?? secret, now);
      recordAction("login", { accessor: auth.accessor, mount: `auth/${mount.path}`, entity: row.entity_id });
      return ok({ auth, warnings });
    });
  }

  /** Whether the entries that a login was verified with are still the same. @throws Sealed */
  #isCurrent({ entry: { mount }, seen = [] }: Login): boolean {
    return seen.every(({ kind, name, text }) => this.#deps.entries.get({ mount, kind, name }) === text);
  }

  /**
   * The limits for a renewal of a token, by its user or role as it is now; null for tokens of other origin. Refused when
   * the user or role is gone, and when the policies of a user were changed.
   * @throws Sealed
   */
  renewal(row: TokenRow): Result<TokenLimits | null> {
    if (row.auth_mount === null) return ok(null);
    const entry = entryOf(row);
    const mount = this.#deps.mounts.byUuid(entry.mount);
    const text = mount && this.#deps.entries.get(entry);
    if (!mount || text === null) return refuse("invalid", "the role or user of this token is gone, not renewing");
    const settings = JSON.parse(text) as TokenSettings;
    // As upstream: roles are compared by no method that is offered here.
    if (entry.kind === "user" && !samePolicies(policiesOf(row), settings.token_policies)) {
      return refuse("invalid", "policies have changed, not renewing");
    }
    return ok({ ...limitsOf(settings, mount), explicitMaxTtl: row.explicit_max_ttl });
  }
}

const samePolicies = (held: readonly string[], granted: readonly string[]): boolean =>
  new Set([...held, "default"]).symmetricDifference(new Set([...granted, "default"])).size === 0;

/** Limits of a token's lifetime by the settings of a login. The mount bounds its roles, whose authors need not be its own
 * (https://developer.hashicorp.com/vault/docs/concepts/tokens#the-general-case). */
function limitsOf(settings: TokenSettings, { config }: AuthMount): TokenLimits {
  const maxTtl = lesserOf(settings.token_max_ttl, config.max_lease_ttl || SYSTEM_MAX_TTL);
  return {
    ttl: settings.token_ttl || config.default_lease_ttl,
    maxTtl,
    period: Math.min(settings.token_period, maxTtl),
    explicitMaxTtl: settings.token_explicit_max_ttl,
  };
}

const entryOf = (row: TokenRow): AuthEntryName => {
  const [kind = "", ...name] = (row.auth_entry ?? "").split(" ");
  return { mount: row.auth_mount ?? "", kind, name: name.join(" ") };
};

/**
 * Whether a login gets a batch token: the mount decides where its type is not a default, else the role, else the mount's
 * default (https://developer.hashicorp.com/vault/api-docs/system/auth#token_type).
 */
function isBatchLogin({ token_type: ofRole }: TokenSettings, { config: { token_type: ofMount } }: AuthMount): boolean {
  if (ofMount === "service" || ofMount === "batch") return ofMount === "batch";
  return ofRole === "default" ? ofMount === "default-batch" : ofRole === "batch" || ofRole === "default-batch";
}

function newToken(
  mount: AuthMount,
  { settings, entry, displayName, metadata, path }: Login,
  policies: readonly string[],
  entity: string,
  now: number,
): { token: NewToken; warnings: string[] } {
  const limits = limitsOf(settings, mount);
  const { maxTtl, period, explicitMaxTtl } = limits;
  const isBatch = isBatchLogin(settings, mount);
  const { expires } = expiryFor({ created: now, ...limits, root: false }, 0, now);
  const isCapped = period < settings.token_period || (period === 0 && maxTtl < settings.token_ttl);
  const named = policies.filter((name) => name !== "root");
  const names = settings.token_no_default_policy ? named : [...named, "default"];
  const token: NewToken = {
    parent: null,
    namespace: mount.namespace,
    policies: JSON.stringify(dedupe(names).sort()),
    name: displayName === "" ? mount.path.slice(0, -1) : `${mount.path.slice(0, -1)}-${displayName}`,
    meta: Object.keys(metadata).length > 0 ? JSON.stringify(metadata) : null,
    path,
    family: isBatch ? "batch" : "secrets",
    global: 0,
    created: now,
    expires,
    renewed: null,
    ttl: Math.round(((expires ?? now) - now) / 1000),
    explicit_max_ttl: explicitMaxTtl,
    max_ttl: maxTtl,
    period,
    uses: settings.token_num_uses,
    orphan: 1,
    renewable: isBatch ? 0 : 1,
    entity_id: entity,
    auth_mount: mount.uuid,
    auth_entry: `${entry.kind} ${entry.name}`,
    bound_cidrs: settings.token_bound_cidrs.length > 0 ? JSON.stringify(settings.token_bound_cidrs) : null,
  };
  return { token, warnings: isCapped ? ["TTL is capped at the effective maximum"] : [] };
}
