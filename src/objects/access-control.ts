import { type AccessParts, accessParts } from "../access/access-parts.ts";
import type { Explained } from "../access/authorize/authorize.ts";
import { streamAnswers } from "../access/authorize/stream-rights.ts";
import { INVENTORY } from "../access/inventory.ts";
import { DeletedMountSweep } from "../access/mounts/deleted-mount-sweep.ts";
import { accessOutboxTopics } from "../access/outbox-topics.ts";
import { approleMethods, authMethodMethods, identityMethods } from "../access/rpc/auth.ts";
import {
  clusterAclIndexMethods,
  clusterLoginMethods,
  clusterRoleMethods,
  clusterTokenMethods,
} from "../access/rpc/cluster-acl.ts";
import { keyMethods, mountMethods, namespaceMethods, policyMethods, quotaMethods } from "../access/rpc/system.ts";
import { cubbyholeMethods, tokenMethods, tokenRoleMethods, wrappingMethods } from "../access/rpc/tokens.ts";
import { accessMigrations } from "../access/schema.ts";
import { StorageRegistry } from "../access/system/storage-registry.ts";
import { RestoreLedger, refusedByRestore } from "../backup/restore-ledger.ts";
import type {
  AccessControlApi,
  AuthorizeRequest,
  CorsSettings,
  Grant,
  LeasedGrant,
  ServiceStatus,
} from "../contracts/access-control.ts";
import type { Located } from "../contracts/namespaces.ts";
import type { StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import { earliest } from "../lib/earliest.ts";
import type { Refusal, Result } from "../lib/result.ts";
import { within } from "../lib/timeout.ts";
import { recordBirth, recordJurisdiction } from "../listings/births.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { JurisdictionChanged } from "../platform/durable/jurisdiction.ts";
import type { ChangedKeys, NameChanges } from "../platform/durable/object-context.ts";
import { knownPage } from "../platform/durable/object-inventory.ts";
import { bornWith, type KnownPage, type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import { type OutboxRow, storedLater } from "../platform/durable/outbox-delivery.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { LeaseOwner } from "../read-leases/lease-owner.ts";
import { ACCESS_OWNER } from "../read-leases/replica-reads.ts";

const EXPIRED_PER_ALARM = 500;
/** Longest time for which a start waits for the indexes of its last lines. */
const RESTORE_INDEXES_MS = 1_000;

/** Fields of a refusal that was decided before any token was read. */
const UNEXPLAINED = { tag: "", expires: null, unknown: false, counted: false };

/** Begins all parts in their order, also after the failure of one. @throws the first failure, once all have ended */
async function runAll(...parts: readonly (() => unknown)[]): Promise<void> {
  const ended = await Promise.allSettled(parts.map(async (part) => part()));
  for (const part of ended) if (part.status === "rejected") throw part.reason;
}

/** Whether an answer may be served to another equal request under a lease. */
const isReusable = (answer: Grant | Refusal): boolean =>
  answer.ok ? answer.cacheable && !answer.self : answer.reason === "denied" || answer.reason === "missing";

/** The object's method tables, and the components that their rows call. */
const AccessMethods = composedOf<AccessParts>()(
  approleMethods,
  authMethodMethods,
  clusterAclIndexMethods,
  clusterLoginMethods,
  clusterRoleMethods,
  clusterTokenMethods,
  cubbyholeMethods,
  identityMethods,
  keyMethods,
  mountMethods,
  namespaceMethods,
  policyMethods,
  quotaMethods,
  tokenMethods,
  tokenRoleMethods,
  wrappingMethods,
);

/**
 * Owns authentication and authorization: tokens, policies, namespaces and the mount table. One instance per deployment;
 * every request reads it once, cached in the Worker where allowed. Its methods by subject are in `src/access/rpc`; this
 * class has those that every request needs, restores, and the alarm.
 */
export class AccessControl extends AccessMethods implements AccessControlApi {
  protected override readonly parts: AccessParts;
  readonly #leases: LeaseOwner;
  readonly #restores: RestoreLedger;
  readonly #storage: StorageRegistry;
  readonly #sweep: DeletedMountSweep;

  protected override get kind() {
    return "access-control" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, access: accessMigrations },
      { event: storedLater((_lane, rows) => this.#publish(rows)), ...accessOutboxTopics(env) },
    );
    this.#leases = new LeaseOwner(env, ctx.storage, ACCESS_OWNER, () => this.arm());
    const commit = <T>(change: () => T, keys?: NameChanges): T => this.commit(change, keys);
    this.parts = accessParts({ ctx, env, outbox: this.outbox, commit });
    this.#restores = new RestoreLedger({
      env,
      storage: ctx.storage,
      hold: (restore) => this.holdForRestore(restore, bornWith("access-control")),
      swap: (restore) => this.swap(restore),
      release: (restore) => this.release(restore),
      restart: () => this.restart(),
    });
    this.#storage = new StorageRegistry(this.sql);
    this.#sweep = new DeletedMountSweep(env, this.parts.deletedMounts, this.#storage, this.outbox, commit);
    this.whenResumed(() => this.#setUp());
    if (this.outbox.holds("event")) ctx.blockConcurrencyWhile(() => this.#restoreIndexes());
  }

  // ---- every request ----

  /** Resolves a path of an unauthenticated request. */
  locate(namespace: string, path: string): Result<Located> {
    return this.#leases.hold(this.parts.authorizer.locate(namespace, path));
  }

  authorize(ask: AuthorizeRequest): Grant | Refusal {
    const { answer, tag } = this.#explain(ask);
    return this.#leases.hold(answer, tag);
  }

  authorizeFor(holder: string, ask: AuthorizeRequest): LeasedGrant {
    const { counted, ...explained } = this.#explain(ask);
    const lease = !counted && isReusable(explained.answer) ? this.#leases.grant(holder, explained.tag) : null;
    return this.#leases.hold({ ...explained, lease }, explained.tag);
  }

  #explain(ask: AuthorizeRequest): Explained {
    if (this.isBeingRestored && ask.path !== "sys/snapshot") return { ...UNEXPLAINED, answer: refusedByRestore() };
    const explained = refuseIfSealed(() => {
      // While sealed, no token can be verified, which must not look like an invalid token.
      this.parts.hashKey.open();
      const found = this.parts.authorizer.explain(ask);
      return { ok: true as const, value: { ...found, answer: this.#completed(found.answer, ask) } };
    });
    return explained.ok ? explained.value : { ...UNEXPLAINED, answer: explained };
  }

  #completed(answer: Grant | Refusal, ask: AuthorizeRequest): Grant | Refusal {
    const { rateLimits, leaseQuotas } = this.parts;
    const limited =
      answer.ok && answer.mount && leaseQuotas.exist ? { ...answer, countsLeases: true as const } : answer;
    const counted = limited.ok && ask.path !== null && rateLimits.exist ? this.#counted(limited, ask) : limited;
    return counted.ok && ask.self ? this.#withSelf(counted, ask) : counted;
  }

  #withSelf(grant: Grant, { token }: AuthorizeRequest): Grant | Refusal {
    const found = this.parts.tokens.lookup({ own: token ?? "" });
    return found.ok ? { ...grant, self: found.value } : found;
  }

  /** Counts a request with a token. It cannot be answered from a cache, so that every one is counted. */
  #counted(grant: Grant, { address = null, again = false }: AuthorizeRequest): Grant | Refusal {
    if (again) return { ...grant, cacheable: false };
    const taken = this.parts.rateLimits.take({ ...grant, address }, Date.now());
    if (!taken.ok) return taken;
    return taken.value === null ? grant : { ...grant, rate: taken.value, cacheable: false };
  }

  status(): ServiceStatus {
    return {
      lost: this.#storage.lost(),
      sealedBecause: this.parts.keys.sealedBecause(),
      clusterId: this.parts.deploymentState.get("cluster_id") ?? "",
      bootstrapped: this.parts.bootstrap.done,
      lastSnapshot: this.parts.serviceSettings.lastSnapshot(),
    };
  }

  /** Stream permissions for any number of questions, answered in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[] {
    const { tokenStore, holders, clusterNamespaces } = this.parts;
    return this.#leases.hold(streamAnswers(questions, tokenStore, holders, clusterNamespaces, Date.now()));
  }

  cors(): CorsSettings | null {
    return this.parts.serviceSettings.cors();
  }

  setCors(settings: CorsSettings | null): void {
    this.parts.serviceSettings.setCors(settings);
  }

  // ---- snapshots and restores ----

  snapshotRead(began: number): void {
    this.parts.serviceSettings.setLastSnapshot(began);
  }

  /** Objects of mounts, including deleted ones, and other objects that hold data keys. */
  override known(after: string): KnownPage {
    return knownPage(this.sql, INVENTORY, after);
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.parts.forget();
    this.parts.rateLimits.forget();
    this.#leases.changeAll();
    return swapped;
  }

  override holdForRestore(restore: string, mayHold: Readonly<Record<string, number>>): Result<null> {
    const held = super.holdForRestore(restore, mayHold);
    this.#leases.changeAll();
    return held;
  }

  beginRestore(restore: string): Promise<Result<null>> {
    return this.#restores.begin(restore);
  }

  joinRestore(restore: string, object: ObjectName): Result<null> {
    return this.#restores.join(restore, object);
  }

  hasRestore(restore: string): boolean {
    return this.#restores.has(restore);
  }

  completeRestore(restore: string): Result<null> {
    return this.#restores.complete(restore);
  }

  undoRestore(restore: string | null): Promise<Result<null>> {
    return this.#restores.undo(restore);
  }

  stepRestore(): Promise<boolean> {
    return this.#restores.step();
  }

  // ---- births ----

  /** Records the storage of an object on first use. @returns the id on record: see `StorageIdentity` */
  begins(object: ObjectName, id: string, fresh: boolean): string {
    return this.#storage.register(object, id, fresh);
  }

  /** Clears a lost object after its storage was restored. */
  isFound(object: ObjectName): void {
    this.#storage.found(object);
  }

  /**
   * D1 records whether an `AccessControl` existed before, and in which jurisdiction: no other store is always available.
   * @throws JurisdictionChanged
   */
  protected override async register(object: ObjectName, id: string, fresh: boolean): Promise<string> {
    const [db, name, { JURISDICTION: now }] = [this.env.LISTINGS, textOfObject(object), settings(this.env)];
    const known = await recordBirth(db, name, id, fresh);
    const first = await recordJurisdiction(db, name, id, now);
    if (first !== now) throw new JurisdictionChanged(now, first);
    return known;
  }

  // ---- inside ----

  /** Replicas and cached callers depend on the same changes. */
  protected override onChange(keys: ChangedKeys): void {
    this.parts.authorizer.forget(keys);
    this.#leases.change(keys);
  }

  protected override answered(result: unknown): unknown {
    return this.#leases.hold(result);
  }

  /** An event shows a change, so it is sent when no replica serves the state before it. */
  async #publish(rows: readonly OutboxRow[]): Promise<() => void> {
    await this.#leases.settled();
    return this.parts.publisher.deliver(rows);
  }

  protected override onRollback(): void {
    this.parts.forget();
    this.#leases.rolledBack();
  }

  protected override measured(): Series[] {
    const sealed = series("sallyport_sealed", this.parts.keys.sealedBecause() === null ? 0 : 1);
    return [sealed, ...this.parts.leaseQuotas.measured()];
  }

  protected override async restoreExists(restore: string): Promise<boolean> {
    return this.#restores.has(restore);
  }

  protected override frozenDeadline(): number | null {
    return this.#restores.nextDue(Date.now());
  }

  protected override async onFrozenAlarm(): Promise<void> {
    await this.#restores.step();
  }

  protected override onAnyAlarm(): void {
    this.#leases.review();
  }

  protected override ownDeadline(): number | null {
    const { tokenStore, oneTimeTokens, approles, deletedMounts, deletions } = this.parts;
    return earliest(
      tokenStore.nextExpiry(),
      oneTimeTokens.nextExpiry(),
      approles.nextExpiry(),
      deletedMounts.nextCheck(),
      deletions.nextDue(),
      this.#leases.nextReview(),
    );
  }

  protected override async onAlarm(now: number): Promise<void> {
    const { tokens, oneTimeTokens, approles, publisher, deletions, namespaces, clusterNamespaces } = this.parts;
    await runAll(
      () => tokens.expire(now, EXPIRED_PER_ALARM),
      () => oneTimeTokens.expire(now),
      () => approles.expire(now, EXPIRED_PER_ALARM),
      () => publisher.delivered(),
      () => this.#sweep.run(now),
      () => deletions.resume([namespaces, clusterNamespaces], now),
    );
  }

  /** Answers may have named indexes that the rows lack after a crash. The log has them; without it, requests go on. */
  async #restoreIndexes(): Promise<void> {
    await within(RESTORE_INDEXES_MS, this.parts.publisher.published()).catch((failure: unknown) =>
      warn("indexes-missing", { because: textOf(failure) }),
    );
  }

  #setUp(): void {
    if (this.parts.keys.sealedBecause() !== null) return;
    // Not `commit`, which sets an alarm: on a full disk, that write would keep the object from starting. Nothing of it
    // is due, and no replica has read before.
    this.ctx.storage.transactionSync(() => this.parts.begin(settings(this.env).DEV_ROOT_TOKEN));
  }
}
