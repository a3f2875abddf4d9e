import { backoff } from "../lib/backoff.ts";
import { Kept } from "../platform/durable/memo.ts";
import type { WorkList } from "../platform/durable/work-queue.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { PAUSE_RECHECK_MS } from "./sync-gate.ts";

/** What a destination says to `SyncControl` of the queue. Always the whole: only the newest statement counts. */
export interface QuotaRequest {
  /** Operations that are queued, or have been promised room: this much is never taken away. */
  readonly kept: number;
  /** Operations that wait until there is room. */
  readonly waiting: number;
  /** Operations that are added if there is room now, and not at all if there is none. */
  readonly asked: number;
}

/** What `SyncControl` answers. */
export interface QuotaGrant {
  /** How many operations the destination may have queued. */
  readonly granted: number;
  /** So little room is left that what is not needed should be given back at once. */
  readonly scarce: boolean;
  /** False while syncing is paused: then room seldom comes. */
  readonly running: boolean;
}

interface Host {
  /** The destination object's name. */
  readonly self: string;
  readonly sql: SqlStorage;
  readonly work: WorkList;
  commit<T>(change: () => T): T;
  exchange(need: QuotaRequest): Promise<QuotaGrant>;
}

/** A question that may have been lost is asked again after this long. */
const LOST_MS = 2_000;
/** While there is no room, it is asked for again after this long, and each time later. */
const FULL = { base: 100, cap: 5_000 };
/** Room that is not needed any more is given back after this long, or with the next question. */
const GIVE_BACK_MS = 2_500;

/**
 * A destination's share of the queue. One question at a time is out to `SyncControl`. What is not kept is given up before it
 * is asked, and what is granted is used once the answer is stored: so whatever is lost on the way, no room is ever used twice,
 * and the next question heals the rest.
 */
export class QueueQuota {
  readonly #host: Host;
  /** AssociationCheck, but not committed yet. */
  #reserved = 0;
  /** Callers that wait for room, and are told with the next answer. */
  #waiters: PromiseWithResolvers<boolean>[] = [];
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<void> | null = null;
  #requestedAt = 0;
  /** Answers in a row that left something waiting. */
  #refusals = 0;
  #fullUntil = 0;
  #scarce = false;

  readonly #row: Kept<{ readonly granted: number; readonly open: number }>;

  constructor(host: Host) {
    this.#host = host;
    this.#row = new Kept(
      () =>
        host.sql.exec<{ granted: number; open: number }>("SELECT granted, open FROM share").toArray()[0] ?? {
          granted: 0,
          open: 0,
        },
    );
  }

  /** What is kept of it in memory may not be true any more. */
  forget(): void {
    this.#row.forget();
  }

  /** Whether one more row may be queued without asking. */
  hasRoom(): boolean {
    return this.#row.get().granted > this.#inUse();
  }

  /** Room for one row, to be given back with `release` once it is committed or given up. @returns false when the queue is full */
  async reserve(): Promise<boolean> {
    if (this.hasRoom()) {
      this.#reserved++;
      return true;
    }
    const waiter = Promise.withResolvers<boolean>();
    this.#waiters.push(waiter);
    // How the question ended, the waiter is told.
    this.request().catch(() => undefined);
    return waiter.promise;
  }

  release(): void {
    this.#reserved--;
  }

  /** Brings the share in line with the need, and queues what waited for room. Who comes meanwhile shares the next question. */
  request(): Promise<void> {
    if (this.#next) return this.#next;
    const next = this.#running.then(() => {
      this.#next = null;
      return this.#requestNow();
    });
    this.#next = next;
    this.#running = next.catch(() => undefined);
    return next;
  }

  /** Like `ask`, but never rejects: the alarm asks again. */
  async tryRequest(): Promise<void> {
    try {
      await this.request();
    } catch (failure) {
      warn("share-failed", { destination: this.#host.self, because: textOf(failure) });
    }
  }

  /** The question is about to be asked: no alarm is needed for it. */
  expectRequest(now: number): void {
    this.#requestedAt = now;
  }

  /**
   * Whether to ask without waiting for the alarm: others may want what is not needed here, or half of the room is free for
   * what waits.
   */
  shouldRequest(): boolean {
    const { granted } = this.#row.get();
    const waiting = this.#host.work.waiting();
    const kept = this.#inUse();
    if (waiting > 0) return kept <= granted / 2;
    return granted > kept && this.#scarce;
  }

  /** When the alarm should ask: something waits for room, room is not needed any more, or no answer has come. Null: all is well. */
  due(): number | null {
    const { granted, open } = this.#row.get();
    if (open === 1) return this.#requestedAt + LOST_MS;
    if (this.#host.work.waiting() > 0) return this.#fullUntil || this.#requestedAt + LOST_MS;
    return granted === this.#inUse() ? null : this.#requestedAt + GIVE_BACK_MS;
  }

  async #requestNow(): Promise<void> {
    const waiters = this.#waiters;
    this.#waiters = [];
    try {
      const admitted = await this.#exchange(waiters.length);
      for (const [position, waiter] of waiters.entries()) waiter.resolve(position < admitted);
    } catch (failure) {
      for (const waiter of waiters) waiter.reject(failure);
      throw failure;
    }
  }

  /** @returns how many of those that asked have been promised room */
  async #exchange(asked: number): Promise<number> {
    const { work, commit } = this.#host;
    const kept = this.#inUse();
    const waiting = work.waiting();
    this.#requestedAt = Date.now();
    commit.call(this.#host, () => this.#store(kept, true));
    const { granted, scarce, running } = await this.#host.exchange({ kept, waiting, asked });
    let admitted = 0;
    commit.call(this.#host, () => {
      this.#store(granted, false);
      // What began to wait after the question comes last: it is not what the answer is for.
      work.promote(Math.min(waiting, granted - this.#inUse()));
      admitted = Math.max(0, Math.min(asked, granted - this.#inUse()));
      work.promote(granted - this.#inUse() - admitted);
      this.#scarce = scarce;
      this.#refusals = work.waiting() > 0 && granted <= kept ? this.#refusals + 1 : 0;
      const wait = running ? backoff(this.#refusals, FULL) : PAUSE_RECHECK_MS;
      this.#fullUntil = work.waiting() > 0 ? Date.now() + wait : 0;
    });
    // In this same turn: the next question gives up what nobody keeps.
    this.#reserved += admitted;
    return admitted;
  }

  #inUse(): number {
    return this.#host.work.queued() + this.#reserved;
  }

  #store(granted: number, open: boolean): void {
    this.#host.sql.exec(
      "INSERT INTO share (id, granted, open) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET granted = excluded.granted, open = excluded.open",
      granted,
      open ? 1 : 0,
    );
    this.#row.forget();
  }
}
