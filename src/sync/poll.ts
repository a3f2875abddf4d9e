import type { Refusal } from "../lib/result.ts";
import { guarded } from "../platform/crypto/refuse-if-sealed.ts";
import type { Claim } from "../platform/durable/lease.ts";
import { announceAssociation } from "./announcements.ts";
import type { ObjectTask, PollAnswer, SyncResult } from "./association.ts";
import { secretOf } from "./associations.ts";
import type { DestinationParts } from "./parts.ts";

const IDLE: PollAnswer = { running: true, permitMs: 0, setup: null, tasks: [], retryInMs: null };

/** The turns that Workers take with a destination: they hand in results and get tasks. */
export class Poll {
  readonly #parts: DestinationParts;

  constructor(parts: DestinationParts) {
    this.#parts = parts;
  }

  /**
   * Takes the results of tasks (what came too late, or answers an older wish, changes nothing) and hands out what is ready to
   * be done, each task under a lease.
   * @param places how many tasks the Worker can take; @param only one association
   */
  async run(results: readonly SyncResult[], places: number, only?: string): Promise<PollAnswer | Refusal> {
    const { work, quota, gate, wakeUp } = this.#parts;
    wakeUp.answered();
    await this.#complete(results);
    if (places <= 0) return IDLE;
    if (work.queued() === 0 && work.waiting() > 0) await quota.tryRequest();
    if (work.queued() === 0) return IDLE;
    if (!(await gate.mayRun())) return { ...IDLE, running: false };
    return guarded(() => this.#handOut(places, only));
  }

  /**
   * Records what there is to be: the keys of a secret are others than its recorded objects, or another destination may have a
   * name.
   * @param keys null: nothing is to be pushed @returns null when the claim is void
   */
  async plan(claim: Claim, keys: readonly string[] | null): Promise<ObjectTask[] | null> {
    const { record, scheduler, neighbours, commit } = this.#parts;
    const before = record.find();
    if (!before) return null;
    return neighbours.claimNames(scheduler.unclaimed(before, claim, keys), (taken) => {
      const found = record.find();
      return found && commit(() => scheduler.plan(found, claim, keys, taken, Date.now()));
    });
  }

  /** One step of an ending that is on its way. */
  async advancePurge(): Promise<void> {
    const { record, purge, work, quota, outbox, commit } = this.#parts;
    if (purge.due() === null) return;
    commit(() => purge.step(Date.now()));
    if (work.waiting() > 0 || quota.shouldRequest()) await quota.tryRequest();
    if (!record.row()) await outbox.drain();
  }

  #handOut(places: number, only: string | undefined): PollAnswer {
    const { record, scheduler, gate, commit } = this.#parts;
    const found = record.find();
    if (!found) return IDLE;
    const due = scheduler.due(found, Date.now());
    // Nothing to hand out, as for most of those who ask in a burst: without a transaction.
    if (only === undefined && (due === null || due > Date.now())) {
      return { ...IDLE, retryInMs: due === null ? null : due - Date.now() };
    }
    // Opened before anything is leased, so that a sealed service leases nothing.
    const setup = record.setup(found);
    const now = Date.now();
    const tasks = commit(() => scheduler.lease(found, places, now, only));
    const next = scheduler.due(found, now);
    return {
      running: true,
      permitMs: gate.permitMs(now),
      setup,
      tasks,
      retryInMs: next === null ? null : Math.max(0, next - now),
    };
  }

  async #complete(results: readonly SyncResult[]): Promise<void> {
    const { scheduler, outbox, quota, commit, behind } = this.#parts;
    if (results.length > 0) {
      const gone = commit(() => {
        const ended = scheduler.complete(results, Date.now());
        for (const row of ended) announceAssociation(outbox, secretOf(row));
        return ended;
      });
      if (gone.length > 0) await Promise.all([outbox.drain("watch"), outbox.drain("associations")]);
      if (quota.shouldRequest()) behind(quota.tryRequest());
    }
    await this.advancePurge();
  }
}
