import { Lru } from "../../lib/lru.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import { LEASE_MS } from "../../platform/durable/work-queue.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import type { Job } from "./job-store.ts";

/** Further jobs get rows. */
const MAX_JOBS = 1_000;
/** A job whose calls take longer gets a row: the platform may drop the memory of an object that is idle for 10 s. */
const SLOW_MS = 2_000;

/** A job in memory, and the lease of the Worker that makes its calls. */
export interface UnstoredJob {
  readonly job: Job;
  readonly lease: WorkLease;
  /** Time from which it is slow, ms since 1970. */
  readonly slowAt: number;
}

/**
 * The jobs of requests for credentials that end by themselves (`endsByItself` of the engine's type), without a lock, a key
 * for repeats or a quota. Such a job has no row until it is slow, or its calls fail or are not the last: one transaction
 * makes its lease. A restart of the object drops it, and the Worker begins the request again.
 */
export class UnstoredJobs {
  /** By id, oldest first. */
  readonly #jobs = new Map<string, UnstoredJob>();
  /** Jobs that have ended or got rows lately. */
  readonly #settled = new Lru<string, true>(MAX_JOBS);
  #timer: ReturnType<typeof setTimeout> | null = null;
  #store: (slow: readonly UnstoredJob[]) => void = () => {};

  /** @param store gives rows to slow jobs; it is tried again when it throws */
  watch(store: (slow: readonly UnstoredJob[]) => void): void {
    this.#store = store;
  }

  /** @returns null when there is no room */
  add(job: Job, now: number): WorkLease | null {
    if (this.#jobs.size >= MAX_JOBS) return null;
    const lease = { id: job.id, generation: 1, lease: ` ${crypto.randomUUID()}`, leaseUntil: now + LEASE_MS };
    this.#jobs.set(job.id, { job, lease, slowAt: now + SLOW_MS });
    this.#timer ??= setTimeout(() => this.#tick(), SLOW_MS);
    return lease;
  }

  #tick(): void {
    this.#timer = null;
    const now = Date.now();
    const slow = [...this.#jobs.values()].filter(({ slowAt }) => slowAt <= now);
    try {
      if (slow.length > 0) this.#store(slow);
      for (const { job } of slow) this.settle(job.id);
    } catch (failure) {
      // Such as while a snapshot is made.
      warn("jobs-not-stored", { jobs: slow.length, because: textOf(failure) });
    }
    if (this.#jobs.size > 0) this.#timer = setTimeout(() => this.#tick(), SLOW_MS);
  }

  find({ id, lease }: WorkLease): Job | null {
    const entry = this.#jobs.get(id);
    return entry?.lease.lease === lease ? entry.job : null;
  }

  ids(): Iterable<string> {
    return this.#jobs.keys();
  }

  /** Drops a job that has ended or got rows. Called after the transaction. */
  settle(id: string): void {
    if (this.#jobs.delete(id)) this.#settled.set(id, true);
  }

  /** Whether a job has ended or got rows lately. */
  hasSettled(id: string): boolean {
    return this.#settled.get(id) === true;
  }

  /** Drops a job before its first call. */
  delete(id: string): void {
    this.#jobs.delete(id);
  }

  /** Drops the jobs of a token. */
  deleteOf(token: string): void {
    for (const [id, { job }] of this.#jobs) {
      if (job.work.kind === "issue" && job.work.terms.token === token) this.#jobs.delete(id);
    }
  }

  clear(): void {
    this.#jobs.clear();
  }
}
