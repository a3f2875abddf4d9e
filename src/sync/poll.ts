import type { ObjectTask, PollAnswer, SyncResult } from "../contracts/sync-tasks.ts";
import type { Refusal } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import { announceAssociation } from "./announcements.ts";
import { secretOf } from "./associations.ts";
import type { DestinationDependencies } from "./dependencies.ts";

const IDLE: PollAnswer = { running: true, permitMs: 0, setup: null, tasks: [], retryInMs: null };

/**
 * The destination's side of a poll: completes the tasks that a Worker reports and leases it new ones. Owned by
 * `SyncDestination`, called by its RPC methods `turn` and `plan`. A poll without ready tasks costs no transaction.
 */
export class Poll {
  readonly #dependencies: DestinationDependencies;

  constructor(dependencies: DestinationDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Completes tasks and leases ready ones. A result with a stale lease changes nothing.
   * @param slots the most tasks to lease; @param only the id of one association
   */
  async run(results: readonly SyncResult[], slots: number, only?: string): Promise<PollAnswer | Refusal> {
    const { work, quota, gate, wakeUp } = this.#dependencies;
    wakeUp.resume();
    await this.#complete(results);
    if (slots <= 0) return IDLE;
    if (work.queued() === 0 && work.waiting() > 0) await quota.tryRequest();
    if (work.queued() === 0) return IDLE;
    if (!(await gate.mayRun())) return { ...IDLE, running: false };
    return refuseIfSealed(() => this.#lease(slots, only));
  }

  /**
   * Plans the objects of a leased task again: the secret's keys differ from the recorded objects, or another destination
   * may own a name.
   * @param keys the secret's keys; null: nothing is pushed @returns null when the lease is void
   */
  async plan(claim: WorkLease, keys: readonly string[] | null): Promise<ObjectTask[] | null> {
    const { record, leasing, neighbours, commit } = this.#dependencies;
    const before = record.find();
    if (!before) return null;
    return neighbours.claimNames(leasing.unclaimed(before, claim, keys), (taken) => {
      const found = record.find();
      return found && commit(() => leasing.plan(found, claim, keys, taken, Date.now()));
    });
  }

  /** Performs one step of a running purge. */
  async advancePurge(): Promise<void> {
    const { record, purge, work, quota, outbox, commit } = this.#dependencies;
    if (purge.due() === null) return;
    commit(() => purge.step(Date.now()));
    if (work.waiting() > 0 || quota.shouldRequest()) await quota.tryRequest();
    if (!record.row()) await outbox.drain();
  }

  #lease(slots: number, only: string | undefined): PollAnswer {
    const { record, leasing, gate, commit } = this.#dependencies;
    const found = record.find();
    if (!found) return IDLE;
    const due = leasing.due(found, Date.now());
    // Most polls of a burst find no ready task; they need no transaction.
    if (only === undefined && (due === null || due > Date.now())) {
      return { ...IDLE, retryInMs: due === null ? null : due - Date.now() };
    }
    // Unsealed first, so that a sealed service leases no task.
    const setup = record.setup(found);
    const now = Date.now();
    const tasks = commit(() => leasing.lease(found, slots, now, only));
    const next = leasing.due(found, now);
    return {
      running: true,
      permitMs: gate.leaseMs(now),
      setup,
      tasks,
      retryInMs: next === null ? null : Math.max(0, next - now),
    };
  }

  async #complete(results: readonly SyncResult[]): Promise<void> {
    const { leasing, outbox, quota, commit, waitUntil } = this.#dependencies;
    if (results.length > 0) {
      const gone = commit(() => {
        const ended = leasing.complete(results, Date.now());
        for (const row of ended) announceAssociation(outbox, secretOf(row));
        return ended;
      });
      if (gone.length > 0) await Promise.all([outbox.drain("watch"), outbox.drain("associations")]);
      if (quota.shouldRequest()) waitUntil(quota.tryRequest());
    }
    await this.advancePurge();
  }
}
