import { backoff } from "../../lib/backoff.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { syncControl } from "../../rpc/stubs.ts";
import { SingleRow } from "../rows.ts";
import { EXTRA_QUOTA } from "./queue-capacity.ts";
import type { SyncGate } from "./sync-gate.ts";

/** The column `open`: a request waits for its answer, or what the last answer said of the quota of others. */
const ANSWERED = 0;
const ASKED = 1;
const PLENTIFUL = 2;
type QuotaState = typeof ANSWERED | typeof ASKED | typeof PLENTIFUL;

/** A request without an answer is repeated after this long. */
const LOST_MS = 2_000;
/** Back-off between requests while the queue is full. */
const FULL = { base: 100, cap: 5_000 };
/** Unused quota is released after this long, or with the next request; while quota is plentiful, most is kept. */
const RELEASE_MS = 2_500;
/** Plentiful quota that is kept unused: more than one request is granted for a few operations. */
const MAX_UNUSED = 2 * EXTRA_QUOTA;

/**
 * A destination's queue quota: the number of operations it may have queued, out of the capacity that `QueueCapacity`
 * divides among all destinations. Owned by `SyncDestination`, read before each row is queued. Costs one stored row, and
 * one RPC per request.
 *
 * One request is in flight at a time. Unused quota is given up before a request is sent, and a grant is used once it is
 * stored. So a lost message never lets quota be used twice, and the next request corrects the rest.
 */
export class QueueQuota {
  /** Reserved by callers that have not committed yet. */
  #reserved = 0;
  /** Callers that wait for the next grant. */
  #waiters: PromiseWithResolvers<boolean>[] = [];
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<void> | null = null;
  #requestedAt = 0;
  /** Grants in a row that left operations waiting. */
  #refusals = 0;
  #fullUntil = 0;
  #scarce = false;

  readonly #row: SingleRow<{ granted: number; open: QuotaState }>;

  constructor(
    private readonly object: ObjectContext,
    private readonly work: WorkQueue,
    private readonly gate: SyncGate,
  ) {
    this.#row = new SingleRow(object.sql, "share");
  }

  /** Drops the cached row after a rollback. */
  forget(): void {
    this.#row.forget();
  }

  /** Whether one more row may be queued under the current grant. */
  hasRoom(): boolean {
    return this.#granted() > this.#inUse();
  }

  /** Reserves quota for one row until `release` is called. @returns false when the queue is full */
  async reserve(): Promise<boolean> {
    if (this.hasRoom()) {
      this.#reserved++;
      return true;
    }
    const waiter = Promise.withResolvers<boolean>();
    this.#waiters.push(waiter);
    // A failure rejects the waiter, too.
    this.request().catch(() => undefined);
    return waiter.promise;
  }

  release(rows = 1): void {
    this.#reserved -= rows;
  }

  /** Adjusts the quota to the need and queues waiting rows. Concurrent callers share the next request. */
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

  /** Like `request`, but never rejects: the alarm repeats it. */
  async tryRequest(): Promise<void> {
    await this.request().catch((failure: unknown) => {
      warn("share-failed", { destination: this.object.name, because: textOf(failure) });
    });
  }

  /** Like `tryRequest`, when rows wait for quota. */
  async requestForWaiting(): Promise<void> {
    if (this.work.waiting() > 0) await this.tryRequest();
  }

  /** Gives up unused quota, although it was plentiful when it was granted. Never rejects. */
  async giveUpUnused(): Promise<void> {
    if (this.hasRoom()) await this.tryRequest();
  }

  /** Whether rows are queued; requests quota first when all rows wait. */
  async hasQueued(): Promise<boolean> {
    if (this.work.queued() === 0) await this.requestForWaiting();
    return this.work.queued() > 0;
  }

  /** Rows that wait for quota have it requested by the alarm now, and not when the pause would be checked again. */
  pauseEnded(): void {
    if (this.#fullUntil > 0) this.#fullUntil = Date.now();
  }

  /** A request follows soon, so the alarm is not needed for it. */
  expectRequest(now: number): void {
    this.#requestedAt = now;
  }

  /**
   * Whether to request before the alarm does: unused quota is scarce elsewhere, or half of the grant is free for
   * waiting rows.
   */
  shouldRequest(): boolean {
    const granted = this.#granted();
    const waiting = this.work.waiting();
    const kept = this.#inUse();
    if (waiting > 0) return kept <= granted / 2;
    return granted > kept && this.#scarce;
  }

  /**
   * When the alarm should request: rows wait, quota is unused, or an answer is missing. Null when none of these holds.
   * @param ended whether the destination needs no more quota
   */
  due(ended = false): number | null {
    const open = this.#row.get()?.open;
    if (open === ASKED) return this.#requestedAt + LOST_MS;
    if (this.work.waiting() > 0) return this.#fullUntil || this.#requestedAt + LOST_MS;
    // Plentiful quota is kept, so that the next change need not ask for it.
    const unused = this.#granted() - this.#inUse();
    return unused === 0 || (open === PLENTIFUL && unused <= MAX_UNUSED && !ended)
      ? null
      : this.#requestedAt + RELEASE_MS;
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

  /** @returns how many of the `asked` operations are reserved */
  async #exchange(asked: number): Promise<number> {
    const { env, name } = this.object;
    const work = this.work;
    const kept = this.#inUse();
    const waiting = work.waiting();
    const sent = Date.now();
    this.#requestedAt = sent;
    this.object.commit(() => this.#row.put({ granted: kept, open: ASKED }));
    const answer = await syncControl(env).share(name, { kept, waiting, asked });
    this.gate.update(answer, sent);
    const { granted, scarce } = answer;
    let admitted = 0;
    this.object.commit(() => {
      this.#row.put({ granted, open: scarce ? ANSWERED : PLENTIFUL });
      // Rows that began to wait after the request was sent come last.
      work.promote(Math.min(waiting, granted - this.#inUse()));
      admitted = Math.max(0, Math.min(asked, granted - this.#inUse()));
      work.promote(granted - this.#inUse() - admitted);
      this.#scarce = scarce;
      this.#refusals = work.waiting() > 0 && granted <= kept ? this.#refusals + 1 : 0;
      const again = Math.max(Date.now() + backoff(this.#refusals, FULL), this.gate.pausedUntil());
      this.#fullUntil = work.waiting() > 0 ? again : 0;
    });
    // In the same turn as the commit: the next request gives up quota that is neither queued nor reserved.
    this.#reserved += admitted;
    return admitted;
  }

  #inUse(): number {
    return this.work.queued() + this.#reserved;
  }

  #granted(): number {
    return this.#row.get()?.granted ?? 0;
  }
}
