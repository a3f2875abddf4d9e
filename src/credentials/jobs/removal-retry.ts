import type { CloudFailure } from "../../contracts/cloud-calls.ts";
import type { Refusal } from "../../lib/result.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import { warn } from "../../platform/observability/log.ts";
import type { EngineStores } from "../engine-stores.ts";
import { retried } from "../runner/removal.ts";
import type { WorkOf } from "./job.ts";
import type { Job } from "./job-store.ts";

/**
 * A lease becomes irrevocable after this many failed rounds. Its revocation is then retried once a day, or on request.
 */
const LEASE_ROUNDS = 6;
const DAY_MS = 86_400_000;
const MAX_DELAY_MS = 3_600_000;
const FAILURE_LENGTH = 600;

/**
 * Retries removals that a round left incomplete, revocations of leases included. Owned by `JobOutcomes`; writes the job
 * and the state of its lease, inside the object's transaction. The delay doubles with each round, up to an hour:
 *
 *     lease: ending ──failed round──► ending ──LEASE_ROUNDS failed──► irrevocable ──a day, or on request──► next round
 */
export class RemovalRetry {
  constructor(private readonly stores: EngineStores) {}

  /** Schedules the next round. @param failure may carry the wait that the provider requires @returns `because` */
  schedule(
    job: Job,
    work: WorkOf<"removal">,
    workLease: WorkLease,
    because: Refusal,
    failure: CloudFailure | null,
    now: number,
  ): Refusal {
    const { jobs, leases, work: list, scope, events } = this.stores;
    const message = because.message.slice(0, FAILURE_LENGTH);
    const rounds = job.failures + 1;
    const { other: _, ...next } = work;
    jobs.keep(job, { work: { ...next, removal: retried(work.removal) }, tries: 0, failure: message });
    jobs.setFailures(job.id, rounds);
    const over = work.lease && rounds >= LEASE_ROUNDS;
    if (work.lease) leases.failed(job.id, message, over ? "irrevocable" : "ending");
    if (over && rounds === LEASE_ROUNDS) events.lease("LeaseIrrevocable", job.id, { Error: message });
    const doubled = Math.min(Math.round(2 ** rounds * 10_000 * (0.5 + Math.random())), MAX_DELAY_MS);
    const afterMs = Math.max(over ? DAY_MS : doubled, failure?.retryAfterMs ?? 0);
    list.complete(workLease, { kind: "retry", afterMs }, now);
    warn("removal-failed", { engine: scope, job: job.id, what: work.because, rounds, because: message });
    return because;
  }
}
