import type { WorkLease } from "../../platform/durable/lease.ts";
import { LEASE_MS } from "../../platform/durable/work-queue.ts";
import type { Job } from "./job-store.ts";

/** Further jobs get rows. */
const MAX_JOBS = 1_000;

interface Entry {
  readonly job: Job;
  readonly lease: WorkLease;
}

/**
 * The jobs of requests for credentials of which a crash leaves nothing at the provider, such as a session that ends by
 * itself. Such a job has no row until its calls fail or are not the last: one call and one transaction make its lease.
 * A restart of the object drops it, and the Worker begins the request again.
 */
export class UnstoredJobs {
  /** By id, oldest first. */
  readonly #entries = new Map<string, Entry>();

  /** @returns null when there is no room */
  add(job: Job, now: number): WorkLease | null {
    for (const [id, { lease }] of this.#entries) {
      if (lease.leaseUntil > now) break;
      this.#entries.delete(id);
    }
    if (this.#entries.size >= MAX_JOBS) return null;
    const lease = { id: job.id, generation: 1, lease: ` ${crypto.randomUUID()}`, leaseUntil: now + LEASE_MS };
    this.#entries.set(job.id, { job, lease });
    return lease;
  }

  /** The job of a lease that has not ended. */
  find({ id, lease }: WorkLease, now: number): Job | null {
    const entry = this.#entries.get(id);
    return entry?.lease.lease === lease && entry.lease.leaseUntil > now ? entry.job : null;
  }

  delete(id: string): void {
    this.#entries.delete(id);
  }

  /** Drops the jobs of a token. */
  deleteOf(token: string): void {
    for (const [id, { job }] of this.#entries) {
      if (job.work.kind === "issue" && job.work.terms.token === token) this.#entries.delete(id);
    }
  }

  clear(): void {
    this.#entries.clear();
  }
}
