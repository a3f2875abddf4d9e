import type { DestinationKey } from "../contracts/destination.ts";
import { syncControl } from "../contracts/stubs.ts";
import type { QuotaGrant, QuotaRequest } from "../contracts/sync-control.ts";
import type {
  AssociationListing,
  AssociationsPage,
  AssociationView,
  Configured,
  Contest,
  DestinationState,
  KeysOf,
  PlannedObject,
  Preview,
  RecordsPage,
  StoredObjectView,
  SyncDestinationApi,
} from "../contracts/sync-destination.ts";
import type { Granularity, ObjectTask, PollAnswer, SecretRef, Setup } from "../contracts/sync-tasks.ts";
import { earliest } from "../lib/earliest.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { WakeUp } from "../platform/durable/wake-up.ts";
import { WorkQueue, workMigrations } from "../platform/durable/work-queue.ts";
import { destinationMeasures } from "../platform/observability/metrics/measures.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { AnnouncementDelivery } from "../sync/announcement-delivery.ts";
import { announceAll } from "../sync/announcements.ts";
import { Associations, associationId, secretOf } from "../sync/associations.ts";
import { associationsPage } from "../sync/associations-page.ts";
import { Breaker } from "../sync/breaker.ts";
import { Configuration } from "../sync/configuration.ts";
import type { DestinationDependencies } from "../sync/dependencies.ts";
import { DesiredState } from "../sync/desired-state.ts";
import { DestinationRecord, type Found } from "../sync/destination-record.ts";
import { desiredObjects } from "../sync/external-name.ts";
import { Neighbours } from "../sync/neighbours.ts";
import { Poll } from "../sync/poll.ts";
import { copyRecords, plannedChanges, previewed } from "../sync/preview.ts";
import { Purge } from "../sync/purge.ts";
import { QueueQuota } from "../sync/queue-quota.ts";
import { Relocation } from "../sync/relocation.ts";
import { RemoteObjects } from "../sync/remote-objects.ts";
import { Resync } from "../sync/resync.ts";
import { type AssociationRow, destinationMigrations } from "../sync/schema.ts";
import { StoredObjects } from "../sync/stored-objects.ts";
import { SyncGate } from "../sync/sync-gate.ts";
import { TaskLeasing } from "../sync/task-leasing.ts";

const PAGE = 1_000;

/**
 * Owns one destination: its connection details, its associations, and its pending work. Components in `src/sync`
 * decide; this class is their RPC surface.
 */
export class SyncDestination extends StoredObject implements SyncDestinationApi {
  readonly #keys: DataKeys;
  readonly #dependencies: DestinationDependencies;
  readonly #configuration: Configuration;
  readonly #desiredState: DesiredState;
  readonly #poll: Poll;
  readonly #announcements: AnnouncementDelivery;
  readonly #relocation: Relocation;

  protected override get kind() {
    return "sync-destination" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      {
        data_keys: dataKeyMigrations,
        work: workMigrations,
        destination: destinationMigrations,
        measures: destinationMeasures,
      },
      {
        watch: (lane) => this.#announcements.watch(lane),
        listing: () => this.#announcements.listing(),
        associations: (_lane, rows) => this.#announcements.associations(rows),
        relist: (_lane, rows) => this.#announcements.relist(rows),
        moved: (mountUuid, rows) => this.#relocation.deliver(mountUuid, rows),
        "key-holder": () => this.#announcements.keyHolder(),
        app: () => this.#announcements.app(),
        targets: () => this.#announcements.targets(),
      },
    );
    const self = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(this.sql, `sync-destination ${self}`, () => this.env.MASTER_KEY);
    this.#dependencies = this.#assemble(self);
    this.#configuration = new Configuration(this.#dependencies);
    this.#desiredState = new DesiredState(this.#dependencies);
    this.#poll = new Poll(this.#dependencies);
    this.#relocation = new Relocation(this.#dependencies);
    this.#announcements = new AnnouncementDelivery(this.#dependencies, this.#configuration, this.#keys);
  }

  #assemble(self: string): DestinationDependencies {
    const { sql, env, outbox } = this;
    const commit = <T>(change: () => T): T => this.commit(change);
    const gate = new SyncGate(() => syncControl(env).mayRun());
    const work = new WorkQueue(sql, { failedLast: true });
    const remoteObjects = new RemoteObjects(sql);
    const exchange = async (need: QuotaRequest): Promise<QuotaGrant> => {
      const sent = Date.now();
      const answer = await syncControl(env).share(self, need);
      gate.update(answer, sent);
      return answer;
    };
    const quota = new QueueQuota({ self, sql, work, commit, exchange });
    const associations = new Associations(sql, work, quota, remoteObjects);
    const stores = {
      env,
      self,
      sql,
      outbox,
      commit,
      work,
      remoteObjects,
      associations,
      record: new DestinationRecord(sql, this.#keys, self),
      storedObjects: new StoredObjects(sql, this.#keys, `sync-destination ${self}`),
      breaker: new Breaker(sql),
    };
    const resync = new Resync(stores);
    const purge = new Purge({ ...stores, resync });
    const neighbours = new Neighbours(stores);
    const leasing = new TaskLeasing({ ...stores, purge, neighbours });
    const wakeUp = new WakeUp(env.SYNC_WORK, self);
    const waitUntil = (work: Promise<unknown>): void => this.ctx.waitUntil(work);
    return { ...stores, quota, gate, purge, resync, leasing, wakeUp, neighbours, waitUntil };
  }

  // ---- the destination ----

  configure(...given: Parameters<Configuration["write"]>): Promise<Result<Configured>> {
    return this.#configuration.write(...given);
  }

  repaired(): void {
    this.#configuration.repaired();
  }

  read(): Result<DestinationState> {
    return this.#configuration.read();
  }

  /**
   * Deletes the destination. With associations only on request: `purge` removes their remote objects first, in the
   * background; `force` deletes even if that fails, and without `purge` leaves the remote objects. A missing
   * destination counts as deleted.
   */
  async delete({ purge: removes, force } = { purge: false, force: false }): Promise<Result<null>> {
    const { record, associations, purge, quota } = this.#dependencies;
    if (!record.row()) return ok(null);
    const some = associations.any();
    if (some && !removes && !force) {
      const n = associations.count(PAGE);
      return refuse(
        "in-use",
        `destination has ${counted(n)}; remove them first, or delete it with purge=true, which removes their secrets there`,
      );
    }
    this.commit(() => purge.begin({ removes: some && removes, force }, Date.now()));
    if (quota.shouldRequest()) this.ctx.waitUntil(quota.tryRequest());
    // A following deletion of the namespace or the application finds the destination gone.
    await Promise.all(["listing", "app", "targets", "key-holder"].map((topic) => this.outbox.drain(topic)));
    return ok(null);
  }

  /** Whether the destination uses a custom application, or is about to. @throws Sealed */
  needsApp(name: string): boolean {
    return this.#configuration.needsApp(name);
  }

  // ---- associations ----

  set(secret: SecretRef, keys: readonly string[] = []): Promise<Result<AssociationsPage>> {
    return this.#desiredState.set(secret, keys);
  }

  remove(...given: Parameters<DesiredState["remove"]>): Promise<Result<AssociationsPage>> {
    return this.#desiredState.remove(...given);
  }

  changed(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    return this.#desiredState.changed(mountUuid, secretNames);
  }

  mountMoved(mountUuid: string): void {
    this.#relocation.begin(mountUuid);
  }

  /** The accessor of an association by the mount's path, for deleted mounts. */
  accessorOf(mountPath: string, secretName: string): string | null {
    return this.#dependencies.associations.ofPath(mountPath, secretName)?.mount_accessor ?? null;
  }

  /** Entries of a secret, by the mount's path. */
  ofSecret(mountPath: string, secretName: string): (readonly [string, AssociationView])[] {
    const { record, associations, breaker } = this.#dependencies;
    const row = record.row() ? associations.ofPath(mountPath, secretName) : null;
    return row ? associations.views(row, breaker.view()?.openUntil ?? 0) : [];
  }

  /** The given associations, or one page of all. */
  associations(ids: readonly string[] | null, after?: string, limit?: number): Result<AssociationsPage> {
    return associationsPage(this.#dependencies, ids, after, limit);
  }

  /** Objects stored by the destination itself, with their values. */
  storedObjects(after: string): Result<StoredObjectView[]> {
    const { record, storedObjects } = this.#dependencies;
    return refuseIfSealed(() =>
      record.find()?.type.kind === "stored" ? ok(storedObjects.page(after, PAGE)) : refuse("missing"),
    );
  }

  // ---- looking ahead, and looking again ----

  /** Preview of setting a secret. */
  async previewSet(secret: SecretRef, keys: readonly string[]): Promise<Result<PlannedObject[]>> {
    const before = refuseIfSealed(() => this.#desiredState.check(secret, keys));
    if (!before.ok) return before;
    const taken = await this.#dependencies.neighbours.takenNames(before.unclaimed);
    return refuseIfSealed(() => {
      const admitted = this.#desiredState.check(secret, keys, taken);
      if (!admitted.ok) return admitted;
      const { steps, found } = admitted;
      const id = associationId(secret);
      return ok(plannedChanges(id, this.#dependencies.remoteObjects.of(id), steps, found.row.deletion_policy));
    });
  }

  /** Preview of a configuration change: one page of its associations. */
  previewConfigure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    mode: "write" | "patch",
    page: { readonly after: string; readonly keys: KeysOf | null; readonly origin?: string },
  ): Result<Preview> {
    return refuseIfSealed(() => {
      const defined = this.#dependencies.record.define(key, body, mode, settings(this.env), page.origin);
      return defined.ok ? ok(previewed(this.#dependencies, key, defined.value, page)) : defined;
    });
  }

  /** One page of recorded objects, for comparison with the provider. */
  copyRecords(after: string, limit: number): Result<RecordsPage> {
    const { record } = this.#dependencies;
    const row = record.row();
    if (!row) return refuse("missing");
    const page = copyRecords(this.#dependencies, record.tags(row), { after, limit });
    return page ? ok(page) : refuse("invalid", "after: must be what an earlier answer said in next");
  }

  /** Inputs of a provider call. */
  setup(): Result<Setup> {
    const { record } = this.#dependencies;
    return refuseIfSealed(() => {
      const found = record.find();
      return found ? ok(record.setup(found)) : refuse("missing");
    });
  }

  /** An external name: of an existing object, else of a sample secret. */
  sampleName(): string | null {
    const { record, remoteObjects, associations } = this.#dependencies;
    const found = record.find();
    return found && (remoteObjects.anyPushed() ?? sampleNames(found, record, associations.page("", 1)[0]));
  }

  // ---- work ----

  turn(...given: Parameters<Poll["run"]>): Promise<PollAnswer | Refusal> {
    return this.#poll.run(...given);
  }

  plan(claim: WorkLease, keys: readonly string[] | null): Promise<ObjectTask[] | null> {
    return this.#poll.plan(claim, keys);
  }

  /** A destination with a common target asks for names. */
  contest(...given: Parameters<Neighbours["contest"]>): Contest {
    return this.#dependencies.neighbours.contest(...given);
  }

  // ---- listings ----

  /**
   * Reconciles the listings with this object.
   * @param listed associations in the listings, checked as well
   * @returns whether all updates were delivered
   */
  async relist(listed: readonly AssociationListing[] | null): Promise<boolean> {
    this.commit(() => {
      if (listed === null) announceAll(this.outbox);
      for (const { mount, secret } of listed ?? []) this.outbox.enlist("associations", "", { mount, secret });
    });
    for (const topic of LISTED) await this.outbox.drain(topic);
    return !LISTED.some((topic) => this.outbox.holds(topic));
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override onRollback(): void {
    const { record, breaker, quota, purge, resync, work, associations } = this.#dependencies;
    for (const part of [record, breaker, quota, purge, resync]) part.forget();
    for (const part of [work, associations]) part.forgetMemos();
  }

  protected override measured(): Series[] {
    return [
      series("sallyport_sync_pending", this.#dependencies.work.queued(), "queued"),
      series("sallyport_sync_pending", this.#dependencies.work.waiting(), "waiting"),
      ...countedSeries(this.sql),
    ];
  }

  protected override ownDeadline(): number | null {
    const { record, quota, resync, purge } = this.#dependencies;
    return earliest(this.#wakeUpDue(), quota.due(), record.find() && resync.due(), purge.due());
  }

  protected override async onAlarm(now: number): Promise<void> {
    const { quota, work, wakeUp, resync } = this.#dependencies;
    await this.#poll.advancePurge();
    // A destination older than the register of targets registers itself.
    await this.#dependencies.neighbours.tryRegister();
    const asks = quota.due();
    if (asks !== null && asks <= now) await quota.tryRequest();
    const ready = this.#wakeUpDue();
    if (ready !== null && ready <= now && wakeUp.shouldNotify(now)) await wakeUp.notify();
    // Last, because unreachable mounts must not delay other work.
    await resync.step(now);
    if (work.waiting() > 0) await quota.tryRequest();
  }

  /** Time of the next wake-up message; a Worker then does the work that is ready. */
  #wakeUpDue(): number | null {
    const { record, leasing, wakeUp, gate } = this.#dependencies;
    const found = record.find();
    const ready = found && leasing.due(found, Date.now());
    return found && wakeUp.due(ready === null ? null : Math.max(ready, gate.pausedUntil()));
  }
}

/** External names of a secret beside those of `row`, or in a sample mount. */
function sampleNames(found: Found, record: DestinationRecord, row: AssociationRow | undefined): string | null {
  const naming = { granularity: found.row.granularity as Granularity, template: found.row.template };
  const made = { mountUuid: "", mountAccessor: "kv_00000000", mountPath: "kv/" };
  const secret = { ...(row ? secretOf(row) : made), secretName: "sallyport-check" };
  return desiredObjects(record.scope(found.row, naming), found.type, secret, ["key"])[0]?.name || null;
}

const LISTED = ["listing", "relist", "associations"];
const counted = (n: number): string =>
  n === 1 ? "an association" : `${n < PAGE ? n : `${PAGE} or more`} associations`;
