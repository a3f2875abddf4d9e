import type {
  AssociationListing,
  AssociationsPage,
  Configured,
  SyncDestinationApi,
} from "../contracts/sync-destination.ts";
import type { PollAnswer, SecretRef, SyncResult } from "../contracts/sync-tasks.ts";
import { earliest } from "../lib/earliest.ts";
import { ok, type Refusal, type Result } from "../lib/result.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { workMigrations } from "../platform/durable/work-queue.ts";
import { countedSeries } from "../platform/observability/metrics/object-counters.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { eventDelivery } from "../publishing/service-events.ts";
import {
  type FormerPoll,
  type FormerPollAnswer,
  type FormerSyncDestinationApi,
  pollOfFormerWorker,
} from "../rpc/renamed-methods.ts";
import { watchDelivery } from "../sync/associations/announcement-delivery.ts";
import { announceAll } from "../sync/associations/announcements.ts";
import type { DesiredState } from "../sync/associations/desired-state.ts";
import type { Configuration } from "../sync/configuration/configuration.ts";
import { refuseDeletion } from "../sync/configuration/destination-deletion.ts";
import {
  adoptionMethods,
  associationMethods,
  configurationMethods,
  inspectMethods,
  ruleMethods,
} from "../sync/destination-methods.ts";
import { type DestinationParts, destinationParts } from "../sync/destination-parts.ts";
import { destinationMeasures, pendingAssociations } from "../sync/measures.ts";
import { leasesAll, POLLED_AGAIN_MS } from "../sync/scheduler/poll.ts";
import { destinationMigrations } from "../sync/schema.ts";

const PAGE = 1_000;
/** Work on rules in one alarm, ms. */
const RULES_MS = 10_000;

const DestinationMethods = composedOf<DestinationParts>()(
  adoptionMethods,
  associationMethods,
  configurationMethods,
  inspectMethods,
  ruleMethods,
);

/**
 * Owns one destination: its connection details, its associations, and its pending work. Components in `src/sync`
 * decide; this class and `src/sync/destination-methods.ts` are their RPC surface.
 */
export class SyncDestination extends DestinationMethods implements SyncDestinationApi, FormerSyncDestinationApi {
  protected override readonly parts: DestinationParts;

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
        event: eventDelivery(() => this.parts.serviceEvents),
        watch: watchDelivery(() => this.parts.announcements),
        listing: () => this.parts.announcements.listing(),
        associations: (_lane, rows) => this.parts.announcements.associations(rows),
        relist: (_lane, rows) => this.parts.announcements.relist(rows),
        moved: (mountUuid, rows) => this.parts.relocation.deliver(mountUuid, rows),
        "key-holder": () => this.parts.registration.deliver(),
        app: () => this.parts.app.deliver(),
        targets: () => this.parts.neighbours.deliver(),
        rules: (mountUuid) => this.parts.ruleWork.deliver(mountUuid),
      },
    );
    this.parts = destinationParts(this.context, () => this.#resumed());
  }

  // ---- the destination ----

  async configure(...given: Parameters<Configuration["write"]>): Promise<Result<Configured>> {
    const written = await this.parts.configuration.write(...given);
    const configured = written.ok ? this.#configured(written.value) : written;
    await this.outbox.drain();
    return configured;
  }

  #configured(warnings: readonly string[]): Result<Configured> {
    const state = this.read();
    return state.ok ? ok({ state: state.value, warnings }) : state;
  }

  /**
   * Deletes the destination. With associations only on request: `purge` removes their remote objects first, in the
   * background; `force` deletes even if that fails, and without `purge` leaves the remote objects. A missing
   * destination counts as deleted.
   */
  async delete({ purge: removes, force } = { purge: false, force: false }): Promise<Result<null>> {
    const { record, associations, ruleStore, ruleWork, purge, quota } = this.parts;
    if (!record.row()) return ok(null);
    const some = associations.any() || ruleStore.any();
    if (some && !removes && !force) {
      return refuseDeletion(associations.count(PAGE), PAGE);
    }
    this.commit(() => {
      // First, so that nothing is set again meanwhile.
      ruleWork.clear();
      purge.begin({ removes: some && removes, force }, Date.now());
    });
    if (quota.shouldRequest()) this.ctx.waitUntil(quota.tryRequest());
    // A following deletion of the namespace or the application finds the destination gone.
    await Promise.all(["listing", "app", "targets", "key-holder"].map((topic) => this.outbox.drain(topic)));
    return ok(null);
  }

  // ---- associations ----

  async set(secret: SecretRef, keys: readonly string[] = []): Promise<Result<AssociationsPage>> {
    const set = await this.parts.desiredState.set(secret, keys);
    return set.ok ? this.associations([set.value]) : set;
  }

  async remove(...given: Parameters<DesiredState["remove"]>): Promise<Result<AssociationsPage>> {
    const removed = await this.parts.desiredState.remove(...given);
    return removed.ok ? this.associations([removed.value]) : removed;
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
    this.parts.wakeUp.resume();
    await this.parts.poll.complete(results);
    await this.#advancePurge();
    const answer = await this.parts.poll.lease(slots, { only, holder });
    if (leasesAll(answer)) this.parts.wakeUp.expectLeaseWithin(POLLED_AGAIN_MS, Date.now());
    return answer;
  }

  turn(...given: FormerPoll): Promise<FormerPollAnswer | Refusal> {
    return pollOfFormerWorker(this, given);
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
    return this.parts.announcements.deliverListings(deadline);
  }

  rekey(term: number): void {
    this.commit(() => this.parts.keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override onRollback(): void {
    const { record, breaker, quota, purge, resync, ruleStore, ruleWork, work, associations } = this.parts;
    for (const part of [record, breaker, quota, purge, resync, ruleStore, ruleWork]) part.forget();
    for (const part of [work, associations]) part.forgetMemos();
  }

  protected override measured(): Series[] {
    const pending = pendingAssociations(this.sql);
    const end = this.parts.record.row()?.credentials_end ?? null;
    return [
      ...(end === null ? [] : [series("sallyport_sync_credentials_end_seconds", (end - Date.now()) / 1000)]),
      series("sallyport_sync_pending", this.parts.work.queued(), "queued"),
      series("sallyport_sync_pending", this.parts.work.waiting(), "waiting"),
      ...(pending > 0 ? [series("sallyport_sync_associations", pending, "PENDING")] : []),
      ...countedSeries(this.sql),
    ];
  }

  protected override ownDeadline(): number | null {
    const { record, resync, quota, purge, ruleWork } = this.parts;
    const [resyncs, asks] = [record.find() && resync.due(), quota.due(record.row() === null)];
    return earliest(this.#wakeUpDue(), asks, resyncs, purge.due(), ruleWork.due());
  }

  protected override async onAlarm(now: number): Promise<void> {
    const { record, neighbours, quota, wakeUp, ruleWork, resync } = this.parts;
    await this.#advancePurge();
    // A destination older than the register of targets registers itself.
    await neighbours.tryRegister();
    const asks = quota.due(record.row() === null);
    if (asks !== null && asks <= now) await quota.tryRequest();
    // A step of the purge may have queued work after `now`.
    const ready = this.#wakeUpDue();
    const reached = Date.now();
    if (ready !== null && ready <= reached && wakeUp.shouldNotify(reached)) await wakeUp.notify();
    const rules = ruleWork.due();
    if (rules !== null && rules <= now) await ruleWork.run(now + RULES_MS);
    // Last, because unreachable mounts must not delay other work.
    await resync.step(now);
    await quota.requestForWaiting();
  }

  #resumed(): void {
    this.parts.quota.pauseEnded();
    this.arm();
  }

  /** Performs one step of a running purge. */
  async #advancePurge(): Promise<void> {
    const { record, work, quota, purge } = this.parts;
    if (purge.due() === null) return;
    this.commit(() => purge.step(Date.now()));
    if (work.waiting() > 0 || quota.shouldRequest()) await quota.tryRequest();
    if (!record.row()) await this.outbox.drain();
  }

  /** Time of the next wake-up message; a Worker then does the work that is ready. */
  #wakeUpDue(): number | null {
    const ready = this.parts.leasing.due(Date.now());
    return ready === null ? null : this.parts.wakeUp.due(Math.max(ready, this.parts.gate.pausedUntil()));
  }
}
