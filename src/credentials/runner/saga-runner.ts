import type { CloudFailure } from "../../contracts/cloud-calls.ts";
import type { JobRef, PollResult, Report, Started, Step, StepOutcome } from "../../contracts/credential-engine.ts";
import { backoff } from "../../lib/backoff.ts";
import { refuse } from "../../lib/result.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import { warn } from "../../platform/observability/log.ts";
import type { EngineStores } from "../engine-stores.ts";
import { continuesAt, INTERRUPTED, jobSagaOf, type Work } from "../jobs/job.ts";
import type { JobOutcomes } from "../jobs/job-outcome.ts";
import type { Job, NewJob } from "../jobs/job-store.ts";
import type { UnstoredJob } from "../jobs/unstored-jobs.ts";
import type { EngineAccounts } from "../mount/engine-accounts.ts";
import { batchOf, CALL_MS, LATE_CALL_MS, MIN_CALL_MS } from "./saga.ts";

/** Time limit for all steps of a job that a request waits for, at a provider that is slow to replicate. */
export const REQUEST_MS = 85_000;
/** Time limit for a caller of a provider that fails. Searches for possible orphans go on afterwards. */
export const PATIENCE_MS = 25_000;
/** A Worker keeps its lease through waits up to this long; after a longer one another Worker takes the job. */
const MAX_WAIT_MS = 3_000;
/** A retry delay above this counts as a refusal: the job fails, or a removal continues in another round. */
const MAX_RETRY_DELAY_MS = 40_000;
/** More than a task and the wait before it take. */
const RENEWED_BELOW_MS = 40_000;
const RETRY = { base: 1_000, cap: 7_000 };
const RECHECK_MS = 250;
const UNREADABLE_MS = 3_600_000;

/**
 * The last poll of a Worker that leaves its job in a wait: another Worker has the job after `leftForMs`. An engine of an
 * earlier release ignores the field: the lease ends by itself.
 */
export interface LeavingReport extends Report {
  readonly done: null;
  readonly leftForMs: number;
}

interface Applied {
  readonly job: Job;
  readonly value: unknown;
  readonly failed: { readonly step: Step; readonly failure: CloudFailure } | null;
}

/**
 * Runs sagas: leases steps of jobs to Workers and applies their results.
 *
 *     poll ──lease──► steps ──report──► onSuccess, onError ──► next steps
 *                                           ├──► wait    back-off, or another job holds the lock; a Worker that leaves
 *                                           │            meanwhile ends its lease with the wait
 *                                           └──► end     outcomes.finish, outcomes.fail
 *
 * The state is stored before a step leaves and after each result. Steps without results leave together. A poll with a
 * report costs one update of the job, and seldom a renewal of its lease. Methods run inside the object's transaction.
 */
export class SagaRunner {
  constructor(
    private readonly stores: EngineStores,
    private readonly outcomes: JobOutcomes,
    private readonly accounts: EngineAccounts,
  ) {}

  /** Starts a job that the caller's Worker performs. */
  start(job: NewJob, now: number): Started {
    this.stores.jobs.put(job, now);
    return this.begin({ job: job.id, kind: job.work.kind }, now);
  }

  /** Like `start`, for a job with a new id and without a lock: its first state is stored once. */
  startNew(job: NewJob, now: number): Started {
    const lease = this.stores.work.addLeased(job.id, now);
    const wanted = { job: job.id, kind: job.work.kind };
    return { wanted, polled: this.#advance(this.stores.jobs.draft(job, now), lease, now) };
  }

  /**
   * Like `startNew`, for the job of a request whose credentials end by themselves: it is kept in memory only. Runs outside
   * of a transaction.
   * @returns null for a job that needs a row
   */
  startUnstored(job: NewJob, now: number): Started | null {
    const { type, jobs, unstored } = this.stores;
    const draft = jobs.draft(job, now);
    const next = jobSagaOf(type).next(draft.work, now);
    const identity = this.accounts.ofJob(draft);
    if (next === null || "wait" in next || !identity.ok || !this.accounts.isFollowed()) return null;
    const { steps, state } = batchOf(jobSagaOf(type), draft.work, next, now, type.calls);
    if (state.kind !== "issue" || !type.issue.endsByItself?.(state.issue)) return null;
    const begun = { ...draft, work: state };
    const lease = unstored.add(begun, now);
    if (lease === null) return null;
    const { account } = identity.value;
    const task = { type: type.type, steps, seq: begun.seq, account, deadlineMs: deadlineOf(begun, now), trace: null };
    return { wanted: { job: job.id, kind: state.kind }, polled: { kind: "steps", lease, ...task }, unstored: true };
  }

  /** Whether a job may go on under a lease. */
  holds(lease: WorkLease, now: number): boolean {
    const { unstored, work } = this.stores;
    return unstored.find(lease) !== null || work.holds(lease, now);
  }

  /** Gives rows to jobs in memory, under the leases of their Workers. */
  store(unstored: readonly UnstoredJob[], now: number): void {
    const { jobs, work } = this.stores;
    for (const { job, lease } of unstored) {
      work.addLeased(job.id, now, lease.lease);
      jobs.insert(job);
    }
  }

  /**
   * Leases the job at once, so that the wake-up, which stays due for other jobs, does not hand it to another Worker.
   */
  begin(wanted: JobRef, now: number): Started {
    const lease = this.stores.jobs.lease(now, wanted.job);
    return { wanted, polled: lease && this.poll(wanted, { lease, done: null }, now) };
  }

  /**
   * @param wanted the job of the caller; null: any job that is ready
   * @param report a stale lease changes nothing, also of a Worker that leaves
   * @param hasLeft the caller of the request has hung up
   * @param goesOn the Worker of a job that has ended takes the next one
   */
  poll(
    wanted: JobRef | null,
    report: Report | LeavingReport | null,
    now: number,
    hasLeft = false,
    goesOn = false,
  ): PollResult {
    const result = this.#poll(wanted, report, now, hasLeft);
    return goesOn && result.kind === "end" ? this.#poll(null, null, now, false) : result;
  }

  #poll(wanted: JobRef | null, report: Report | LeavingReport | null, now: number, hasLeft: boolean): PollResult {
    const { jobs, work, unstored } = this.stores;
    const held = report && unstored.find(report.lease);
    if (held && report) return this.#pollUnstored(held, report, now, hasLeft);
    const lease = report?.lease ?? jobs.lease(now, wanted?.job);
    if (!lease) return this.#elsewhere(wanted, now);
    if (report && !work.holds(lease, now)) {
      // The job was replaced; this lease is stale.
      work.complete(lease, { kind: "again" }, now);
      return this.#elsewhere(wanted, now);
    }
    const job = this.#find(lease, now);
    if (!job) return this.#elsewhere(wanted, now);
    const unwanted = hasLeft && job.work.kind === "issue" && job.work.terms.repeat === null;
    if (report?.done?.seq === job.seq) return this.#apply(job, lease, report.done, now, unwanted, wanted === null);
    // No caller waits for these credentials: their secret could not be delivered.
    if (!report && !wanted && job.work.kind === "issue") {
      this.outcomes.fail(job, job.work, lease, refuse("unavailable", "the request was interrupted"), null, now);
      return this.#poll(null, null, now, false);
    }
    if (unwanted) return this.#abandon(job, lease, now);
    if (!report || !("leftForMs" in report)) return this.#advance(job, lease, now);
    jobs.endLease(lease, now + report.leftForMs);
    return { kind: "idle" };
  }

  /** The job is over, or gets its rows: for another call, a repeat, or the record of its failure. */
  #pollUnstored(before: Job, { lease, done }: Report, now: number, hasLeft: boolean): PollResult {
    const { type, work, accounts } = this.stores;
    // The configuration names another identity since.
    if (before.account !== accounts.current()) return { kind: "end", end: INTERRUPTED };
    const { job, value, failed } = this.#applied(before, done?.results ?? [], now);
    if (job.work.kind === "issue" && !failed && !hasLeft && jobSagaOf(type).next(job.work, now) === null) {
      return { kind: "end", end: this.outcomes.finishUnstored(job, job.work, value, now) };
    }
    const stored = work.addLeased(before.id, now, lease.lease);
    return done ? this.#apply(before, stored, done, now, hasLeft, false) : this.#advance(before, stored, now);
  }

  /** The job of a lease. An unreadable one is delayed, so that it does not block the jobs after it. */
  #find(lease: WorkLease, now: number): Job | null {
    const { jobs, work } = this.stores;
    try {
      const job = jobs.find(lease.id);
      if (!job) work.forget(lease.id);
      return job;
    } catch (failure) {
      if (!jobs.isUnreadable(failure)) throw failure;
      warn("job-unreadable", { job: lease.id });
      work.complete(lease, { kind: "retry", afterMs: UNREADABLE_MS }, now);
      return null;
    }
  }

  #apply(
    before: Job,
    lease: WorkLease,
    { results }: NonNullable<Report["done"]>,
    now: number,
    unwanted: boolean,
    isAlone: boolean,
  ): PollResult {
    const { job, value, failed } = this.#applied(before, results, now);
    if (failed) return this.#onError(job, lease, failed.step, failed.failure, now, isAlone);
    return unwanted ? this.#abandon(job, lease, now) : this.#advance(job, lease, now, value);
  }

  /** The job after the successful ones of its steps, the value of the last of them, and the step that failed. */
  #applied(before: Job, results: readonly StepOutcome[], now: number): Applied {
    let job = before;
    let value: unknown;
    for (const { step, result } of results) {
      if (!result.ok) return { job, value, failed: { step, failure: result.failure } };
      job = { ...job, work: jobSagaOf(this.stores.type).onSuccess(job.work, step, result.value, now), tries: 0 };
      value = result.value;
    }
    return { job, value, failed: null };
  }

  /**
   * Removes the unfinished credentials of a caller that has left. None of their calls is in flight: this lease made the
   * last.
   */
  #abandon(job: Job, lease: WorkLease, now: number): PollResult {
    const because = refuse("unavailable", "the caller left before the answer");
    return { kind: "end", end: this.outcomes.fail(job, job.work, lease, because, null, now) };
  }

  /** @param isAlone no request waits for the job */
  #onError(job: Job, lease: WorkLease, step: Step, failure: CloudFailure, now: number, isAlone: boolean): PollResult {
    const { jobs, work: list } = this.stores;
    if (isAlone && failure.code === "throttled" && (job.work.kind === "removal" || job.work.kind === "pool")) {
      // All work without a caller waits, so that calls which would be refused do not use up the provider's rate.
      const until = now + Math.max(failure.retryAfterMs ?? 0, backoff(0, RETRY));
      jobs.keep(job, { failure: failure.message });
      list.pause(until);
      list.complete(lease, { kind: "again" }, now);
      return { kind: "end", end: continuesAt(until) };
    }
    const { type } = this.stores;
    const decision = jobSagaOf(type).onError(job.work, step, provenOf(job.work, failure), now, job.tries);
    const searched = type.calls.searchedFor?.(job.work.kind, step.call) ?? null;
    // A search names the failure of the call that it searches for.
    const message = (searched && job.failure) || failure.message;
    const work = decision.state ?? job.work;
    if (decision.kind === "failed") {
      return this.#fail(
        { ...job, work },
        lease,
        { ...step, call: searched ?? step.call },
        { ...failure, message },
        now,
      );
    }
    if (decision.kind === "done") {
      return this.#advance({ ...job, work, tries: 0, failure: message }, lease, now);
    }
    const { afterMs } = decision;
    const ms = afterMs === 0 ? 0 : Math.max(afterMs ?? 0, backoff(job.tries, RETRY));
    const next = jobs.keep(job, { work, tries: job.tries + 1, failure: message });
    const end =
      failure.outcome === "client" ? (job.deadline ?? Number.POSITIVE_INFINITY) : patienceOf(job) - MIN_CALL_MS;
    if (ms > MAX_RETRY_DELAY_MS || now + ms >= end) {
      return this.#fail(next, lease, { ...step, call: searched ?? step.call }, { ...failure, message }, now);
    }
    return { kind: "wait", ms, lease: this.#renew(job, lease, now) };
  }

  /**
   * @param job with the result of its last step, stored here together with the next step
   * @param value result of the last step; a new password exists only here
   */
  #advance(job: Job, lease: WorkLease, now: number, value?: unknown): PollResult {
    const { jobs, work } = this.stores;
    const next = jobSagaOf(this.stores.type).next(job.work, now);
    if (next === null) return { kind: "end", end: this.outcomes.finish(job, lease, value, now) };
    if (job.deadline !== null && now >= job.deadline) {
      const because = refuse("unavailable", `gave up after too long${job.failure ? `: ${job.failure}` : ""}`);
      return { kind: "end", end: this.outcomes.fail(job, job.work, lease, because, null, now) };
    }
    if ("wait" in next) {
      jobs.keep(job, {});
      if (next.wait <= MAX_WAIT_MS) return { kind: "wait", ms: next.wait, lease: this.#renew(job, lease, now) };
      work.complete(lease, { kind: "retry", afterMs: next.wait }, now);
      return { kind: "end", end: continuesAt(work.find(job.id)?.readyAt ?? now + next.wait) };
    }
    if (!jobs.lock(job, now)) return { kind: "wait", ms: 0, lease: this.#renew(job, lease, now), inLine: true };
    const identity = this.accounts.ofJob(job);
    if (!identity.ok) return { kind: "end", end: this.outcomes.fail(job, job.work, lease, identity, null, now) };
    const { account, isOther } = identity.value;
    const { type } = this.stores;
    const begun = isOther && job.work.kind === "removal" ? { ...job.work, other: true as const } : job.work;
    const { steps, state } = batchOf(jobSagaOf(type), begun, next, now, type.calls);
    const { seq } = state === job.work && jobs.isKept(job) ? job : jobs.keep(job, { work: state });
    const deadlineMs = deadlineOf(job, now);
    const trace = job.work.kind === "removal" ? job.work.trace : null;
    return {
      kind: "steps",
      lease: this.#renew(job, lease, now),
      type: type.type,
      steps,
      seq,
      account,
      deadlineMs,
      trace,
    };
  }

  /** The lease for the next task. A job with a lock shows by it that its Worker still polls. */
  #renew({ lock }: Job, lease: WorkLease, now: number): WorkLease {
    return this.stores.work.renew(lease, now, lock === null ? RENEWED_BELOW_MS : undefined);
  }

  #fail(job: Job, lease: WorkLease, { call, args }: Step, failure: CloudFailure, now: number): PollResult {
    const because = refuse(
      failure.outcome === "client" ? "invalid" : "unavailable",
      `${this.stores.type.calls.describe(call, args)}: ${failure.message}`,
    );
    return { kind: "end", end: this.outcomes.fail(job, job.work, lease, because, failure, now) };
  }

  /** Another Worker has the job, or it is over. */
  #elsewhere(wanted: JobRef | null, now: number): PollResult {
    if (!wanted) return { kind: "idle" };
    const { jobs, work } = this.stores;
    const kind = jobs.kindOf(wanted.job);
    if (kind !== wanted.kind) return { kind: "end", end: this.outcomes.outcomeOf(wanted, now) };
    const row = work.find(wanted.job);
    if (kind === "removal" && row && !row.leased && row.readyAt > now) {
      return { kind: "end", end: this.outcomes.outcomeOf(wanted, now) };
    }
    return { kind: "wait", ms: RECHECK_MS, lease: null };
  }
}

/** A failure as evidence: "not found" is none when the calls are those of another identity. */
const provenOf = (work: Work, failure: CloudFailure): CloudFailure =>
  work.kind === "removal" && work.other && failure.code === "not_found" ? { ...failure, code: "refused" } : failure;

/** Time limit for the next calls of a job, in ms. */
function deadlineOf(job: Job, now: number): number {
  const leastMs = job.tries > 0 ? MIN_CALL_MS : LATE_CALL_MS;
  const end = job.deadline ?? Number.POSITIVE_INFINITY;
  return Math.min(CALL_MS, Math.max(patienceOf(job) - now, leastMs), end - now);
}

/** The end of a caller's wait while the provider fails, ms since 1970; `deadline` is that of a job of a request. */
const patienceOf = ({ deadline, work }: Job): number =>
  deadline === null || work.kind === "rotation" || work.kind === "pool"
    ? (deadline ?? Number.POSITIVE_INFINITY)
    : deadline - REQUEST_MS + PATIENCE_MS;
