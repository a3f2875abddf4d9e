import type { AuthMount, Login, TokenSettings } from "../../contracts/auth.ts";
import { type Authed, TOO_LONG_BATCH_TOKEN } from "../../contracts/tokens.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { NOTHING } from "../../platform/durable/object-context.ts";
import { cappedTtlWarning } from "../../platform/http/capped-ttl.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { tokenUpserted } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import type { Entities } from "../identity/entities.ts";
import { loginLimits } from "../tokens/renewal-limits.ts";
import { dedupe, expiryFor, type NewToken, policyNames } from "../tokens/token.ts";
import type { TokenRules } from "../tokens/token-rules.ts";
import type { TokenStore } from "../tokens/token-store.ts";
import type { LoginChecks } from "./login-checks.ts";

/** Issues the tokens of verified logins. The entity, the token and its event are one transaction. */
export class Logins {
  constructor(
    private readonly checks: LoginChecks,
    private readonly entities: Entities,
    private readonly tokens: TokenStore,
    private readonly rules: TokenRules,
    private readonly publisher: AccessPublisher,
  ) {}

  /**
   * Issues the token of a login.
   * @param also changes of the same transaction
   * @throws Sealed
   */
  login(login: Login, also: () => void = () => {}): Result<Authed> {
    const now = Date.now();
    const admitted = this.checks.admit(login, now);
    if (!admitted.ok) return admitted;
    const mount = admitted.value;
    const { settings, alias } = login;
    if (isBatchLogin(settings, mount) && settings.token_num_uses > 0) {
      return refuse("invalid", 'batch tokens cannot have "num_uses" set');
    }
    const policies = policyNames(settings.token_policies);
    if (!policies.ok) return policies;
    this.checks.passed(login);
    const secret = `hvs.${randomText(24)}`;
    // No reader has presented the random secret before.
    let changes = NOTHING;
    const issue = () => {
      const { namespace } = mount;
      // Absent from a Worker of version 0.2.0, which must not clear it.
      const { alias_metadata: roleMetadata } = settings;
      const entity =
        alias &&
        this.entities.signIn({ namespace, mount: mount.accessor, ...alias, roleMetadata, groups: login.groups }, now);
      if (entity && !entity.ok) return entity;
      if (entity?.value.hasOtherRights) {
        changes = null;
        this.publisher.emitEntityChange();
      }
      this.checks.useUp(login, now);
      const { token, warnings } = newToken(mount, login, policies.value, entity?.value.id ?? "", now);
      const sealed = token.family === "batch" ? this.tokens.seal(token, null, now) : null;
      if (token.family === "batch" && sealed === null) return refuse("invalid", TOO_LONG_BATCH_TOKEN);
      const row = sealed?.row ?? this.tokens.insert(secret, token);
      also();
      // No row, no event: a batch token is known to its holder alone.
      if (!sealed) this.publisher.emit([tokenUpserted(row)], [{ token: row.accessor }]);
      const auth = this.rules.authBlock(row, sealed?.secret ?? secret, now);
      recordAction("login", { accessor: auth.accessor, mount: `auth/${mount.path}`, entity: row.entity_id });
      return ok({ auth, warnings });
    };
    return this.publisher.commit(issue, () => changes);
  }
}

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
  const limits = loginLimits(settings, mount);
  const { maxTtl, period, explicitMaxTtl } = limits;
  const isBatch = isBatchLogin(settings, mount);
  const { expires } = expiryFor({ created: now, ...limits, root: false }, 0, now);
  const ttl = Math.round(((expires ?? now) - now) / 1000);
  const isCapped = period < settings.token_period || (period === 0 && maxTtl < settings.token_ttl);
  const named = policies.filter((name) => name !== "root");
  const names = settings.token_no_default_policy ? named : [...named, "default"];
  const token: NewToken = {
    namespace: mount.namespace,
    policies: JSON.stringify(dedupe(names).sort()),
    name: displayName === "" ? mount.path.slice(0, -1) : `${mount.path.slice(0, -1)}-${displayName}`,
    meta: Object.keys(metadata).length > 0 ? JSON.stringify(metadata) : null,
    path,
    family: isBatch ? "batch" : "secrets",
    created: now,
    expires,
    ttl,
    explicit_max_ttl: explicitMaxTtl,
    max_ttl: maxTtl,
    period,
    uses: settings.token_num_uses,
    renewable: isBatch ? 0 : 1,
    entity_id: entity,
    auth_mount: mount.uuid,
    auth_entry: `${entry.kind} ${entry.name}`,
    bound_cidrs: settings.token_bound_cidrs.length > 0 ? JSON.stringify(settings.token_bound_cidrs) : null,
  };
  const asked = settings.token_period || settings.token_ttl;
  return { token, warnings: isCapped ? [cappedTtlWarning(asked, ttl)] : [] };
}
