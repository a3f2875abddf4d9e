import type { PollAnswer, SyncResult } from "../../contracts/sync-tasks.ts";
import type { Refusal } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { announceAssociation } from "../associations/announcements.ts";
import { secretOf } from "../associations/associations.ts";
import type { Caller } from "./lease-limits.ts";
import type { QueueQuota } from "./queue-quota.ts";
import type { SyncGate } from "./sync-gate.ts";
import type { TaskCompletion } from "./task-completion.ts";
import type { TaskLeasing } from "./task-leasing.ts";

const IDLE: PollAnswer = { running: true, permitMs: 0, setup: null, tasks: [], retryInMs: null };

/** A Worker with tasks polls again within this time, as they complete, or it has died. */
export const POLLED_AGAIN_MS = 1_000;

/** Whether a poll has leased tasks, and left none that another Worker could lease. */
export const leasesAll = (answer: PollAnswer | Refusal): boolean =>
  "tasks" in answer && answer.tasks.length > 0 && answer.retryInMs !== 0;

/**
 * The destination's side of a poll: completes the tasks that a Worker reports and leases it new ones. Owned by
 * `SyncDestination`, called by its RPC method `poll`. A poll without ready tasks costs no transaction.
 */
export class Poll {
  constructor(
    private readonly object: ObjectContext,
    private readonly gate: SyncGate,
    private readonly quota: QueueQuota,
    private readonly leasing: TaskLeasing,
    private readonly completion: TaskCompletion,
  ) {}

  /** Completes tasks. A result with a stale lease changes nothing. */
  async complete(results: readonly SyncResult[]): Promise<void> {
    if (results.length === 0) return;
    const { outbox } = this.object;
    const gone = this.object.commit(() => {
      const ended = this.completion.complete(results, Date.now());
      for (const row of ended) announceAssociation(outbox, secretOf(row));
      return ended;
    });
    if (gone.length > 0) await Promise.all([outbox.drain("watch"), outbox.drain("associations")]);
    if (this.quota.shouldRequest()) this.object.waitUntil(this.quota.tryRequest());
  }

  /** Leases ready tasks. @param slots the most tasks to lease */
  async lease(slots: number, caller: Caller): Promise<PollAnswer | Refusal> {
    if (slots <= 0 || !(await this.quota.hasQueued())) return IDLE;
    if (!(await this.gate.mayRun())) return { ...IDLE, running: false };
    return refuseIfSealed(() => this.#lease(slots, caller));
  }

  #lease(slots: number, caller: Caller): PollAnswer {
    const now = Date.now();
    const due = this.leasing.due(now, caller);
    // Most polls of a burst find no ready task; they need no transaction. One task of a batch waits like the others.
    if ((caller.only === undefined || this.leasing.collects) && (due === null || due > now)) {
      return { ...IDLE, retryInMs: due === null ? null : due - now };
    }
    // Unsealed first, so that a sealed service leases no task.
    const setup = this.leasing.setup();
    if (setup === null) return IDLE;
    const tasks = this.object.commit(() => this.leasing.lease(slots, now, caller));
    const next = this.leasing.due(now, caller);
    return {
      running: true,
      permitMs: this.gate.leaseMs(now),
      setup,
      tasks,
      retryInMs: next === null ? null : Math.max(0, next - now),
    };
  }
}
