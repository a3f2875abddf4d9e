import type {
  Approle,
  ApproleName,
  IssuedSecretId,
  SecretIdName,
  SecretIdRecord,
  SecretIdRequest,
} from "../../contracts/approle.ts";
import { areWithinNetworks } from "../../lib/networks.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { NOTHING, type ObjectContext } from "../../platform/durable/object-context.ts";
import { type ApproleStore, approleEntry } from "./approle-store.ts";
import type { AuthMethodEntries } from "./auth-method-entries.ts";

/** Bounds what one role occupies in the object that holds all of them. */
const MAX_SECRET_IDS = 10_000;
const EXPIRED_PER_TIDY = 10_000;
/** The expiry of secret ids without one, as upstream shows it. */
const NEVER = "0001-01-01T00:00:00Z";

/**
 * Roles of `approle` and their secret ids (https://developer.hashicorp.com/vault/api-docs/auth/approle). A role is an
 * entry of its auth mount; its secret ids end with it.
 *
 *     issued ──login──► one use less ──last use, expiry, destroy, end of the role──► deleted
 */
export class Approles {
  constructor(
    private readonly store: ApproleStore,
    private readonly entries: AuthMethodEntries,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** @throws Sealed */
  read(name: ApproleName): string | null {
    return this.entries.entry(approleEntry(name));
  }

  /** See `ApproleApi.putApprole`. @throws Sealed */
  put(name: ApproleName, role: Approle, before: string | null): Result<null> {
    if (this.read(name) !== before) return refuse("conflict", "the role was changed at the same time");
    const taken = this.store.byRoleId(name.mount, role.role_id);
    if (taken && taken.role !== name.role) return refuse("invalid", "role_id already in use");
    return this.commit(() => {
      const written = this.entries.putEntry(approleEntry(name), JSON.stringify(role));
      if (written.ok) this.store.putRole(name, role.role_id, role.bind_secret_id);
      return written;
    });
  }

  delete(name: ApproleName): Result<null> {
    return this.commit(() => {
      this.store.deleteRole(name);
      return this.entries.deleteEntry(approleEntry(name));
    });
  }

  /** @throws Sealed */
  issue(name: ApproleName, request: SecretIdRequest, now: number): Result<IssuedSecretId> {
    const found = this.#found(name);
    if (!found.ok) return found;
    const refused = refusedRequest(found.value, request);
    if (refused) return refused;
    const secretId = request.secretId ?? crypto.randomUUID();
    if (this.store.find(name, { secretId }, now)) return refuse("invalid", "secret_id: already registered");
    if (this.store.count(name) >= MAX_SECRET_IDS) {
      return refuse("invalid", `secret_id: a role holds at most ${MAX_SECRET_IDS}`);
    }
    const accessor = crypto.randomUUID();
    const uses = request.numUses ?? found.value.secret_id_num_uses;
    const ttl = request.ttl ?? found.value.secret_id_ttl;
    const { metadata, cidrList: cidrs, tokenBoundCidrs: tokenCidrs } = request;
    this.commit(
      () => this.store.insert(name, secretId, accessor, uses, { created: now, ttl, metadata, cidrs, tokenCidrs }),
      NOTHING,
    );
    return ok({
      secret_id: secretId,
      secret_id_accessor: accessor,
      secret_id_ttl: ttl,
      secret_id_num_uses: uses,
    });
  }

  /** @throws Sealed */
  accessors(name: ApproleName, now: number): Result<string[]> {
    const found = this.#found(name);
    return found.ok ? ok(this.store.accessors(name, now)) : found;
  }

  /** @throws Sealed */
  lookup(name: ApproleName, secretId: SecretIdName, now: number): Result<SecretIdRecord | null> {
    const role = this.#found(name);
    if (!role.ok) return role;
    const found = this.store.find(name, secretId, now);
    if (!found) return ok(null);
    const { created, ttl, metadata, cidrs, tokenCidrs } = this.store.details(found);
    return ok({
      secret_id_accessor: found.accessor,
      secret_id_num_uses: found.uses,
      secret_id_ttl: ttl,
      creation_time: new Date(created).toISOString(),
      expiration_time: found.expires === null ? NEVER : new Date(found.expires).toISOString(),
      last_updated_time: new Date(found.updated).toISOString(),
      metadata,
      cidr_list: cidrs,
      token_bound_cidrs: tokenCidrs,
    });
  }

  /** @throws Sealed */
  destroy(name: ApproleName, secretId: SecretIdName, now: number): Result<boolean> {
    const role = this.#found(name);
    if (!role.ok) return role;
    const found = this.store.find(name, secretId, now);
    if (found) this.commit(() => this.store.delete(found), NOTHING);
    return ok(found !== null);
  }

  tidy(mount: string, now: number): void {
    this.commit(() => this.store.deleteExpired(now, EXPIRED_PER_TIDY, mount), NOTHING);
  }

  nextExpiry(): number | null {
    return this.store.nextExpiry();
  }

  expire(now: number, limit: number): void {
    if ((this.nextExpiry() ?? now + 1) > now) return;
    this.commit(() => this.store.deleteExpired(now, limit, null), NOTHING);
  }

  #found(name: ApproleName): Result<Approle> {
    const text = this.read(name);
    if (text === null) return refuse("missing", `role ${JSON.stringify(name.role)} does not exist`);
    return ok(JSON.parse(text) as Approle);
  }
}

/** Why a role does not permit a secret id; null when it does. Wording of upstream. */
function refusedRequest(role: Approle, { cidrList, tokenBoundCidrs, numUses, ttl }: SecretIdRequest): Refusal | null {
  if (!role.bind_secret_id) return refuse("invalid", "bind_secret_id is not set on the role");
  if (numUses !== undefined && exceeds(numUses, role.secret_id_num_uses)) {
    return refuse("invalid", "num_uses cannot be higher than the role's secret_id_num_uses");
  }
  if (ttl !== undefined && exceeds(ttl, role.secret_id_ttl)) {
    return refuse("invalid", "ttl cannot be longer than the role's secret_id_ttl");
  }
  if (!isSubset(cidrList, role.secret_id_bound_cidrs)) {
    return refuse("invalid", "cidr_list: must be a subset of the role's secret_id_bound_cidrs");
  }
  if (!isSubset(tokenBoundCidrs, role.token_bound_cidrs)) {
    return refuse("invalid", "token_bound_cidrs: must be a subset of the role's token_bound_cidrs");
  }
  return null;
}

/** Whether a value exceeds a limit; 0 = without a limit. */
const exceeds = (value: number, limit: number): boolean => limit > 0 && (value === 0 || value > limit);

/** Whether networks lie inside others; no others = anywhere. */
export const isSubset = (networks: readonly string[], outer: readonly string[]): boolean =>
  outer.length === 0 || areWithinNetworks(networks, outer);
