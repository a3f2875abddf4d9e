import type { SyncResult } from "../../contracts/sync-tasks.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import type { Found } from "../configuration/destination-record.ts";
import type { DestinationType } from "../destinations/index.ts";
import { freshUntil } from "../fresh-rights.ts";
import type { Breaker } from "./breaker.ts";
import { Pacing } from "./pacing.ts";
import { isCall } from "./retry-policy.ts";

/** The Worker that leases tasks. */
export interface Caller {
  /** The id of one association, whose task is the breaker's trial. */
  readonly only?: string | undefined;
  /** The Worker's run. */
  readonly holder?: string | undefined;
}

/**
 * The limits of one destination on leases: concurrency, pace and breaker. Owned by `SyncDestination`, read before each
 * lease. Reads a few rows; the pace is in memory.
 */
export class LeaseLimits {
  readonly #pacing = new Pacing();

  constructor(
    private readonly work: WorkQueue,
    private readonly breaker: Breaker,
  ) {}

  /** How many tasks may be leased now. */
  free({ type }: Found, now: number, { only, holder }: Caller): number {
    // The task of a set is a trial of its own, beside the one of an open breaker that may be running. So there are two of
    // them also where the pace allows one task at a time.
    const isExtraTrial = only !== undefined && this.isTrial();
    const limit = isExtraTrial ? Math.max(2, type.pace.atOnce) : this.#limit(type, now, holder);
    return Math.min(limit - this.work.leased(now), this.#pacing.room(type.pace, now));
  }

  /** When a task may be ready (ms since 1970), or null. */
  due({ type }: Found, now: number, { holder }: Caller = {}): number | null {
    const { pace } = type;
    const first = this.work.nextReady();
    if (first === null) return null;
    // The first ready task of a batch waits for others.
    const ready = first + (batchOf(type)?.windowMs ?? 0);
    const at = Math.max(ready, this.breaker.view()?.openUntil ?? 0, this.#pacing.nextAt(pace, now));
    // With all slots taken, a completion frees one and polls again; the end of a lease covers a Worker that died.
    const taken = this.work.leased(now) >= this.#limit(type, Math.max(now, at), holder);
    return taken ? Math.max(at, this.work.firstLeaseEnd() ?? 0) : at;
  }

  /**
   * The most leases. A Worker that holds all of them may hold as many again in reserve, or whole batches: it makes no
   * more calls at a time than the limit, and no other Worker leases anything meanwhile. So the limit bounds the calls of
   * all Workers.
   */
  #limit(type: DestinationType<unknown>, now: number, holder: string | undefined): number {
    const limit = this.breaker.limit(type.pace.atOnce, now);
    const isAlone = holder !== undefined && !this.isTrial() && this.work.isOnlyHolder(holder, now);
    return isAlone ? limit * (batchOf(type)?.most ?? 2) : limit;
  }

  /** Whether a lease is a trial of an open breaker. */
  isTrial(): boolean {
    return this.breaker.view() !== null;
  }

  /** Counts the write of a leased task. */
  leased(found: Found, now: number): void {
    this.#pacing.spend(found.type.pace, 1, now);
  }

  /** Records the result of a completed task: its failures, and its writes beyond the one that the lease counted. */
  completed(found: Found, result: SyncResult, now: number): void {
    this.breaker.record(result, now, freshUntil(found.row) > now);
    this.#pacing.spend(found.type.pace, result.copies.filter(isCall).length - 1, now);
  }
}

/** How a type writes many objects in one call; undefined for others. */
export const batchOf = (type: DestinationType<unknown>) => (type.kind === "remote" ? type.batch : undefined);
