import type {
  AssociationListing,
  AssociationsPage,
  AssociationView,
  Configured,
  Contest,
  DestinationState,
  Preview,
  RecordsPage,
  StoredObjectView,
  SyncDestinationApi,
} from "../contracts/sync-destination.ts";
import type { ObjectTask, PlannedObject, PollAnswer, SecretRef, Setup, SyncResult } from "../contracts/sync-tasks.ts";
import { earliest } from "../lib/earliest.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import { NOTHING } from "../platform/durable/object-context.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { WakeUp } from "../platform/durable/wake-up.ts";
import { WorkQueue, workMigrations } from "../platform/durable/work-queue.ts";
import { destinationMeasures, pendingAssociations } from "../platform/observability/metrics/measures.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { eventDelivery, ServiceEvents } from "../publishing/service-events.ts";
import { destinationKeyOf } from "../rpc/destination-name.ts";
import {
  type FormerPoll,
  type FormerPollAnswer,
  type FormerSyncDestinationApi,
  pollOfFormerWorker,
} from "../rpc/renamed-methods.ts";
import { syncControl } from "../rpc/stubs.ts";
import { Adoptions } from "../sync/associations/adoptions.ts";
import { AnnouncementDelivery, watchDelivery } from "../sync/associations/announcement-delivery.ts";
import { announceAll } from "../sync/associations/announcements.ts";
import { AssociationCheck } from "../sync/associations/association-check.ts";
import { Associations } from "../sync/associations/associations.ts";
import { associationsPage, waitsOf } from "../sync/associations/associations-page.ts";
import { DesiredState } from "../sync/associations/desired-state.ts";
import { Purge } from "../sync/associations/purge.ts";
import { Configuration, destinationState } from "../sync/configuration/configuration.ts";
import { CustomApp } from "../sync/configuration/custom-app.ts";
import { DestinationDeletion, refuseDeletion } from "../sync/configuration/destination-deletion.ts";
import { DestinationRecord } from "../sync/configuration/destination-record.ts";
import { Registration } from "../sync/configuration/registration.ts";
import { adoptionMethods, type DestinationParts, ruleMethods } from "../sync/destination-methods.ts";
import { Previews } from "../sync/inspect/preview.ts";
import { Neighbours } from "../sync/objects/neighbours.ts";
import { Relocation } from "../sync/objects/relocation.ts";
import { RemoteObjects } from "../sync/objects/remote-objects.ts";
import { StoredObjects } from "../sync/objects/stored-objects.ts";
import { RuleStore } from "../sync/rules/rule-store.ts";
import { RuleWork } from "../sync/rules/rule-work.ts";
import { Rules } from "../sync/rules/rules.ts";
import { Selection } from "../sync/rules/selection.ts";
import { Breaker } from "../sync/scheduler/breaker.ts";
import { LeaseLimits } from "../sync/scheduler/lease-limits.ts";
import { leasesAll, POLLED_AGAIN_MS, Poll } from "../sync/scheduler/poll.ts";
import { QueueQuota } from "../sync/scheduler/queue-quota.ts";
import { Resync } from "../sync/scheduler/resync.ts";
import { SyncGate } from "../sync/scheduler/sync-gate.ts";
import { TaskCompletion } from "../sync/scheduler/task-completion.ts";
import { TaskLeasing } from "../sync/scheduler/task-leasing.ts";
import { TaskPlanning } from "../sync/scheduler/task-planning.ts";
import { type AssociationRow, destinationMigrations } from "../sync/schema.ts";
import { SecretChanges } from "../sync/secret-changes.ts";
import { SyncEvents } from "../sync/sync-events.ts";

const PAGE = 1_000;
/** Work on rules in one alarm, ms. */
const RULES_MS = 10_000;

const DestinationMethods = composedOf<DestinationParts>()(ruleMethods, adoptionMethods);

/**
 * Owns one destination: its connection details, its associations, and its pending work. Components in `src/sync`
 * decide; this class and `src/sync/destination-methods.ts` are their RPC surface.
 */
export class SyncDestination extends DestinationMethods implements SyncDestinationApi, FormerSyncDestinationApi {
  protected override readonly parts: DestinationParts;
  readonly #keys: DataKeys;
  readonly #events: ServiceEvents;
  readonly #record: DestinationRecord;
  readonly #work: WorkQueue;
  readonly #remoteObjects: RemoteObjects;
  readonly #associations: Associations;
  readonly #storedObjects: StoredObjects;
  readonly #breaker: Breaker;
  readonly #gate: SyncGate;
  readonly #quota: QueueQuota;
  readonly #resync: Resync;
  readonly #purge: Purge;
  readonly #neighbours: Neighbours;
  readonly #wakeUp: WakeUp;
  readonly #app: CustomApp;
  readonly #registration: Registration;
  readonly #configuration: Configuration;
  readonly #desiredState: DesiredState;
  readonly #changes: SecretChanges;
  readonly #leasing: TaskLeasing;
  readonly #previews: Previews;
  readonly #poll: Poll;
  readonly #planning: TaskPlanning;
  readonly #announcements: AnnouncementDelivery;
  readonly #relocation: Relocation;
  readonly #ruleStore: RuleStore;
  readonly #ruleWork: RuleWork;

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
        event: eventDelivery(() => this.#events),
        watch: watchDelivery(() => this.#announcements),
        listing: () => this.#announcements.listing(),
        associations: (_lane, rows) => this.#announcements.associations(rows),
        relist: (_lane, rows) => this.#announcements.relist(rows),
        moved: (mountUuid, rows) => this.#relocation.deliver(mountUuid, rows),
        "key-holder": () => this.#registration.deliver(),
        app: () => this.#app.deliver(),
        targets: () => this.#neighbours.deliver(),
        rules: (mountUuid) => this.#ruleWork.deliver(mountUuid),
      },
    );
    const { sql, context: object } = this;
    this.#keys = new DataKeys(sql, `sync-destination ${object.name}`, () => this.env.MASTER_KEY);
    const place = async () => ({ namespace: destinationKeyOf(object.name).namespace, path: "" });
    this.#events = new ServiceEvents(env, `destination ${object.name}`, () => this.outbox, place);
    const events = new SyncEvents(this.#events, object.name);
    this.#record = new DestinationRecord(object, this.#keys, events);
    this.#work = new WorkQueue(sql, { failedLast: true });
    this.#remoteObjects = new RemoteObjects(sql);
    this.#storedObjects = new StoredObjects(sql, this.#keys, `sync-destination ${object.name}`);
    this.#breaker = new Breaker(sql);
    this.#gate = new SyncGate(
      () => syncControl(env).mayRun(),
      () => this.#resumed(),
    );
    this.#wakeUp = new WakeUp(env.SYNC_WORK, object.name);
    this.#quota = new QueueQuota(object, this.#work, this.#gate);
    this.#ruleStore = new RuleStore(sql, events);
    const origins = (row: AssociationRow) => this.#ruleStore.originNames(row);
    this.#associations = new Associations(sql, this.#work, this.#quota, this.#remoteObjects, events, origins);
    this.#resync = new Resync(object, this.#associations, this.#work, this.#breaker);
    this.#neighbours = new Neighbours(object, this.#record, this.#remoteObjects, this.#associations);
    this.#relocation = new Relocation(object, this.#associations, this.#ruleStore);
    const associations = this.#associations;
    this.#announcements = new AnnouncementDelivery(object, this.#record, associations, this.#work, this.#ruleStore);
    this.#app = new CustomApp(object, this.#record);

    const deletion = new DestinationDeletion(
      object,
      this.#record,
      this.#associations,
      this.#storedObjects,
      this.#resync,
    );
    this.#purge = new Purge(object, this.#associations, this.#work, this.#breaker, deletion);
    this.#registration = new Registration(object, this.#record, this.#purge, this.#keys);
    this.#configuration = new Configuration(object, this.#record, this.#app, this.#registration, this.#resync);

    const check = new AssociationCheck(this.#record, associations, this.#remoteObjects, this.#purge, this.#neighbours);
    const takesOver = (row: AssociationRow) => this.#ruleWork.takesOver(row);
    this.#desiredState = new DesiredState(object, check, this.#associations, this.#quota, this.#resync, this.#wakeUp, {
      takesOver,
    });
    this.#changes = new SecretChanges(object, this.#associations, this.#quota, this.#gate, this.#wakeUp);
    this.#ruleWork = new RuleWork(
      object,
      this.#ruleStore,
      this.#record,
      this.#associations,
      this.#desiredState,
      this.#changes,
    );
    this.parts = {
      record: this.#record,
      rules: new Rules(object, this.#ruleStore, this.#ruleWork, check, this.#associations),
      ruleWork: this.#ruleWork,
      adoptions: new Adoptions(check, associations, this.#desiredState),
      selection: new Selection(object, check, associations, this.#desiredState),
    };
    this.#previews = new Previews(object, this.#record, this.#associations, this.#remoteObjects, check);

    const limits = new LeaseLimits(this.#work, this.#breaker);
    this.#leasing = new TaskLeasing(this.#record, this.#work, this.#associations, this.#remoteObjects, limits);
    const completion = new TaskCompletion(this.#record, this.#associations, this.#storedObjects, this.#purge, limits);
    this.#poll = new Poll(object, this.#gate, this.#quota, this.#leasing, completion);
    this.#planning = new TaskPlanning(object, this.#record, this.#associations, this.#remoteObjects, this.#neighbours);
  }

  // ---- the destination ----

  async configure(...given: Parameters<Configuration["write"]>): Promise<Result<Configured>> {
    const written = await this.#configuration.write(...given);
    const configured = written.ok ? this.#configured(written.value) : written;
    await this.outbox.drain();
    return configured;
  }

  #configured(warnings: readonly string[]): Result<Configured> {
    const state = this.read();
    return state.ok ? ok({ state: state.value, warnings }) : state;
  }

  repaired(): void {
    this.#configuration.repaired();
  }

  read(): Result<DestinationState> {
    return refuseIfSealed(() => destinationState(this.#record, this.#purge, this.#breaker));
  }

  /**
   * Deletes the destination. With associations only on request: `purge` removes their remote objects first, in the
   * background; `force` deletes even if that fails, and without `purge` leaves the remote objects. A missing
   * destination counts as deleted.
   */
  async delete({ purge: removes, force } = { purge: false, force: false }): Promise<Result<null>> {
    if (!this.#record.row()) return ok(null);
    const some = this.#associations.any() || this.#ruleStore.any();
    if (some && !removes && !force) {
      return refuseDeletion(this.#associations.count(PAGE), PAGE);
    }
    this.commit(() => {
      // First, so that nothing is set again meanwhile.
      this.#ruleWork.clear();
      this.#purge.begin({ removes: some && removes, force }, Date.now());
    });
    if (this.#quota.shouldRequest()) this.ctx.waitUntil(this.#quota.tryRequest());
    // A following deletion of the namespace or the application finds the destination gone.
    await Promise.all(["listing", "app", "targets", "key-holder"].map((topic) => this.outbox.drain(topic)));
    return ok(null);
  }

  quotaScarce(): Promise<void> {
    return this.#quota.giveUpUnused();
  }

  /** Whether the destination uses a custom application, or is about to. @throws Sealed */
  needsApp(name: string): boolean {
    return this.#app.needs(name);
  }

  // ---- associations ----

  async set(secret: SecretRef, keys: readonly string[] = []): Promise<Result<AssociationsPage>> {
    const set = await this.#desiredState.set(secret, keys);
    return set.ok ? this.associations([set.value]) : set;
  }

  async remove(...given: Parameters<DesiredState["remove"]>): Promise<Result<AssociationsPage>> {
    const removed = await this.#desiredState.remove(...given);
    return removed.ok ? this.associations([removed.value]) : removed;
  }

  changed(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    return this.#changes.enqueue(mountUuid, secretNames);
  }

  mountMoved(mountUuid: string): void {
    this.#relocation.begin(mountUuid);
  }

  /** The accessor of an association by the mount's path, for deleted mounts. */
  accessorOf(mountPath: string, secretName: string): string | null {
    return this.#associations.ofPath(mountPath, secretName)?.mount_accessor ?? null;
  }

  /** Entries of a secret, by the mount's path. */
  ofSecret(mountPath: string, secretName: string): (readonly [string, AssociationView])[] {
    const destination = this.#record.row();
    const row = destination && this.#associations.ofPath(mountPath, secretName);
    return row ? this.#associations.views(row, waitsOf(destination, this.#breaker)) : [];
  }

  /** The given associations, or one page of all. */
  associations(ids: readonly string[] | null, after?: string, limit?: number): Result<AssociationsPage> {
    return associationsPage(this.#record, this.#associations, this.#breaker, ids, after, limit);
  }

  /** Objects stored by the destination itself, with their values. */
  storedObjects(after: string): Result<StoredObjectView[]> {
    return refuseIfSealed(() =>
      this.#record.find()?.type.kind === "stored" ? ok(this.#storedObjects.page(after, PAGE)) : refuse("missing"),
    );
  }

  // ---- looking ahead, and looking again ----

  /** Preview of setting a secret. */
  previewSet(secret: SecretRef, keys: readonly string[]): Promise<Result<PlannedObject[]>> {
    return this.#previews.set(secret, keys);
  }

  /** Preview of a configuration change: one page of its associations. */
  previewConfigure(...given: Parameters<Previews["configure"]>): Result<Preview> {
    return refuseIfSealed(() => this.#previews.configure(...given));
  }

  /** One page of recorded objects, for comparison with the provider. */
  copyRecords(after: string, limit: number): Result<RecordsPage> {
    return this.#previews.records(after, limit);
  }

  /** Inputs of a provider call. */
  setup(): Result<Setup> {
    return refuseIfSealed(() => {
      const setup = this.#leasing.setup();
      return setup ? ok(setup) : refuse("missing");
    });
  }

  setTrace(mountUuid: string, secretName: string, trace: string): void {
    this.commit(() => this.#associations.setTrace(mountUuid, secretName, trace), NOTHING);
  }

  /** An external name: of an existing object, else of a sample secret. */
  sampleName(): string | null {
    return this.#previews.sampleName();
  }

  // ---- work ----

  /**
   * Completes tasks and leases ready ones.
   * @param slots the most tasks to lease; @param only the id of one association; @param holder the caller's run
   */
  async poll(
    results: readonly SyncResult[],
    slots: number,
    only?: string,
    holder?: string,
  ): Promise<PollAnswer | Refusal> {
    this.#wakeUp.resume();
    await this.#poll.complete(results);
    await this.#advancePurge();
    const answer = await this.#poll.lease(slots, { only, holder });
    if (leasesAll(answer)) this.#wakeUp.expectLeaseWithin(POLLED_AGAIN_MS, Date.now());
    return answer;
  }

  turn(...given: FormerPoll): Promise<FormerPollAnswer | Refusal> {
    return pollOfFormerWorker(this, given);
  }

  plan(lease: WorkLease, keys: readonly string[] | null): Promise<ObjectTask[] | null> {
    return this.#planning.plan(lease, keys);
  }

  /** A destination with a common target asks for names. */
  contest(...given: Parameters<Neighbours["contest"]>): Contest {
    return this.#neighbours.contest(...given);
  }

  // ---- listings ----

  /**
   * Reconciles the listings with this object.
   * @param listed associations in the listings, which are checked; null: all of this object's
   * @param deadline of the wait for the updates (ms since 1970)
   * @returns whether all updates were delivered
   */
  async relist(listed: readonly AssociationListing[] | null, deadline = 0): Promise<boolean> {
    this.commit(() => {
      if (listed === null) announceAll(this.outbox);
      for (const { mount, secret } of listed ?? []) this.outbox.enlist("associations", "", { mount, secret });
    });
    return this.#announcements.deliverListings(deadline);
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override onRollback(): void {
    const parts = [this.#record, this.#breaker, this.#quota, this.#purge, this.#resync, this.#ruleWork];
    for (const part of parts) part.forget();
    for (const part of [this.#work, this.#associations]) part.forgetMemos();
  }

  protected override measured(): Series[] {
    const pending = pendingAssociations(this.sql);
    return [
      series("sallyport_sync_pending", this.#work.queued(), "queued"),
      series("sallyport_sync_pending", this.#work.waiting(), "waiting"),
      ...(pending > 0 ? [series("sallyport_sync_associations", pending, "PENDING")] : []),
      ...countedSeries(this.sql),
    ];
  }

  protected override ownDeadline(): number | null {
    const resync = this.#record.find() && this.#resync.due();
    const quota = this.#quota.due(this.#record.row() === null);
    return earliest(this.#wakeUpDue(), quota, resync, this.#purge.due(), this.#ruleWork.due());
  }

  protected override async onAlarm(now: number): Promise<void> {
    await this.#advancePurge();
    // A destination older than the register of targets registers itself.
    await this.#neighbours.tryRegister();
    const asks = this.#quota.due(this.#record.row() === null);
    if (asks !== null && asks <= now) await this.#quota.tryRequest();
    const ready = this.#wakeUpDue();
    if (ready !== null && ready <= now && this.#wakeUp.shouldNotify(now)) await this.#wakeUp.notify();
    const rules = this.#ruleWork.due();
    if (rules !== null && rules <= now) await this.#ruleWork.run(now + RULES_MS);
    // Last, because unreachable mounts must not delay other work.
    await this.#resync.step(now);
    await this.#quota.requestForWaiting();
  }

  #resumed(): void {
    this.#quota.pauseEnded();
    this.arm();
  }

  /** Performs one step of a running purge. */
  async #advancePurge(): Promise<void> {
    if (this.#purge.due() === null) return;
    this.commit(() => this.#purge.step(Date.now()));
    if (this.#work.waiting() > 0 || this.#quota.shouldRequest()) await this.#quota.tryRequest();
    if (!this.#record.row()) await this.outbox.drain();
  }

  /** Time of the next wake-up message; a Worker then does the work that is ready. */
  #wakeUpDue(): number | null {
    const ready = this.#leasing.due(Date.now());
    return ready === null ? null : this.#wakeUp.due(Math.max(ready, this.#gate.pausedUntil()));
  }
}
