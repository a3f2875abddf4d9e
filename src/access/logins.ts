import type { AuthMount, Login } from "../contracts/auth.ts";
import type { Authed } from "../contracts/tokens.ts";
import { randomText } from "../lib/random-text.ts";
import { ok, type Result } from "../lib/result.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { tokenUpserted } from "./cluster-acl.ts";
import type { Entities } from "./entities.ts";
import type { AccessPublisher } from "./event-publisher.ts";
import type { LoginChecks } from "./login-checks.ts";
import { lesserOf } from "./role-rules.ts";
import { dedupe, expiryFor, type NewToken, policyNames, SYSTEM_MAX_TTL } from "./token.ts";
import type { TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";

interface Dependencies {
  readonly checks: LoginChecks;
  readonly entities: Entities;
  readonly tokens: TokenStore;
  readonly rules: TokenRules;
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
    const { checks, entities, tokens, rules, publisher } = this.#deps;
    const now = Date.now();
    const admitted = checks.admit(login, now);
    if (!admitted.ok) return admitted;
    const mount = admitted.value;
    const { settings, alias } = login;
    const policies = policyNames(settings.token_policies);
    if (!policies.ok) return policies;
    checks.passed(login);
    const secret = `hvs.${randomText(24)}`;
    return publisher.commit(() => {
      const { namespace } = mount;
      const entity =
        alias && entities.signIn({ namespace, mount: mount.accessor, ...alias, groups: login.groups }, now);
      if (entity && !entity.ok) return entity;
      checks.useUp(login, now);
      const { token, warnings } = newToken(mount, login, policies.value, entity?.value ?? "", now);
      const row = tokens.insert(secret, token);
      also();
      publisher.emit([tokenUpserted(row)], [{ token: row.accessor }]);
      recordAction("login", { accessor: row.accessor, mount: `auth/${mount.path}`, entity: row.entity_id });
      return ok({ auth: rules.authBlock(row, secret, now), warnings });
    });
  }
}

function newToken(
  mount: AuthMount,
  { settings, entry, displayName, metadata, path }: Login,
  policies: readonly string[],
  entity: string,
  now: number,
): { token: NewToken; warnings: string[] } {
  const ttl = settings.token_ttl || mount.config.default_lease_ttl;
  // The mount bounds its roles, whose authors need not be those of the mount
  // (https://developer.hashicorp.com/vault/docs/concepts/tokens#the-general-case).
  const maxTtl = lesserOf(settings.token_max_ttl, mount.config.max_lease_ttl || SYSTEM_MAX_TTL);
  const period = Math.min(settings.token_period, maxTtl);
  const explicitMaxTtl = settings.token_explicit_max_ttl;
  const { expires } = expiryFor({ created: now, ttl, maxTtl, explicitMaxTtl, period, root: false }, 0, now);
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
    family: "secrets",
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
    renewable: 1,
    entity_id: entity,
    auth_mount: mount.uuid,
    auth_entry: `${entry.kind} ${entry.name}`,
    bound_cidrs: settings.token_bound_cidrs.length > 0 ? JSON.stringify(settings.token_bound_cidrs) : null,
  };
  return { token, warnings: isCapped ? ["TTL is capped at the effective maximum"] : [] };
}
