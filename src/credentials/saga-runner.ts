import type { CloudAccount, CloudFailure } from "../contracts/cloud-directory.ts";
import type { Report, Started, Step, Turn, Wanted } from "../contracts/credential-engine.ts";
import { backoff } from "../lib/backoff.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import { warn } from "../platform/observability/log.ts";
import type { Endings } from "./completion.ts";
import { type Work, working } from "./job.ts";
import type { Job, Jobs, NewJob } from "./jobs.ts";
import { CALL_MS, runOf } from "./step.ts";
import { goesOn } from "./turn.ts";

/** How long making something for a request may take, all its steps together. */
export const REQUEST_MS = 85_000;
/** A Worker holds its claim through pauses up to this long; after a longer one another takes the job up. */
const LONGEST_PAUSE_MS = 3_000;
/** A provider that asks for more than this has refused: the job ends, or goes on in another round. */
const LONGEST_HOLD_MS = 40_000;
const LOOK_AGAIN_MS = 250;
const UNREADABLE_MS = 3_600_000;

interface Parts {
  readonly jobs: Jobs;
  readonly work: WorkQueue;
  readonly endings: Endings;
  readonly account: () => Result<CloudAccount>;
}

/**
 * Hands out the steps of jobs, and takes their results. Whatever a step tells is stored before the next one leaves; steps that
 * tell nothing go out together. Methods are called inside the object's transaction.
 */
export class Desk {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Begins a job that the caller's Worker performs. */
  start(job: NewJob, now: number): Started {
    this.#parts.jobs.put(job, now);
    return this.claimed({ job: job.id, kind: job.work.kind }, now);
  }

  /** Claimed before the bell could ring for it, which has to go on ringing for everything else. */
  claimed(wanted: Wanted, now: number): Started {
    const claim = this.#parts.jobs.claim(now, wanted.job);
    return { wanted, turn: claim && this.turn(wanted, { claim, done: null }, now) };
  }

  /**
   * @param wanted the job that the Worker waits for; null: any that is ready
   * @param hasLeft the caller that the job was begun for has hung up
   */
  turn(wanted: Wanted | null, report: Report | null, now: number, hasLeft = false): Turn {
    const { jobs, work } = this.#parts;
    const claim = report?.claim ?? jobs.claim(now, wanted?.job);
    if (!claim) return this.#elsewhere(wanted, now);
    if (report && !work.holds(claim, now)) {
      // The job has become another meanwhile: its claim is of no use to anybody.
      work.complete(claim, { kind: "again" }, now);
      return this.#elsewhere(wanted, now);
    }
    const job = this.#find(claim, now);
    if (!job) return this.#elsewhere(wanted, now);
    const unwanted = hasLeft && job.work.kind === "issue" && job.work.terms.repeat === null;
    if (report?.done?.seq === job.seq) return this.#take(job, claim, report.done, now, unwanted);
    // No caller waits for these credentials any more: finished, they would be a secret without an owner.
    if (!report && !wanted && job.work.kind === "issue") {
      this.#parts.endings.failed(job, job.work, claim, refuse("unavailable", "the request was interrupted"), null, now);
      return this.turn(null, null, now);
    }
    return unwanted ? this.#abandon(job, claim, now) : this.#advance(job, claim, now);
  }

  /** The job of a claim. One that cannot be read is set aside, so that it does not hold up those behind it. */
  #find(claim: WorkLease, now: number): Job | null {
    const { jobs, work } = this.#parts;
    try {
      const job = jobs.find(claim.id);
      if (!job) work.forget(claim.id);
      return job;
    } catch (failure) {
      if (!jobs.isUnreadable(failure)) throw failure;
      warn("job-unreadable", { job: claim.id });
      work.complete(claim, { kind: "retry", afterMs: UNREADABLE_MS }, now);
      return null;
    }
  }

  #take(before: Job, claim: WorkLease, { results }: NonNullable<Report["done"]>, now: number, unwanted: boolean): Turn {
    let job = before;
    let last: unknown;
    for (const { step, result } of results) {
      if (!result.ok) return this.#refused(job, claim, step, result.failure, now);
      job = { ...job, work: working.took(job.work, step, result.value, now), tries: 0 };
      last = result.value;
    }
    return unwanted ? this.#abandon(job, claim, now) : this.#advance(job, claim, now, last);
  }

  /** Removes the unfinished credentials of a caller that has left. No call of theirs is out: this claim made the last. */
  #abandon(job: Job, claim: WorkLease, now: number): Turn {
    const because = refuse("unavailable", "the caller left before the answer");
    return { kind: "end", end: this.#parts.endings.failed(job, job.work, claim, because, null, now) };
  }

  #refused(job: Job, claim: WorkLease, step: Step, failure: CloudFailure, now: number): Turn {
    const { jobs } = this.#parts;
    const verdict = working.refused(job.work, step, failure, now, job.tries);
    if (verdict.kind === "failed") return this.#fail(job, claim, step, failure, now);
    const work = verdict.state ?? job.work;
    if (verdict.kind === "took") {
      return this.#advance({ ...job, work, tries: 0, failure: failure.message }, claim, now);
    }
    const { afterMs } = verdict;
    const ms = afterMs === 0 ? 0 : Math.max(afterMs ?? 0, backoff(job.tries, { base: 1_000, cap: 7_000 }));
    const next = jobs.keep(job, { work, tries: job.tries + 1, failure: failure.message });
    if (ms > LONGEST_HOLD_MS || (job.deadline !== null && now + ms >= job.deadline)) {
      return this.#fail(next, claim, step, failure, now);
    }
    return { kind: "wait", ms, claim: this.#parts.work.renew(claim, now) };
  }

  /**
   * @param job with what its last step has told, which is stored here together with what comes next
   * @param value what the last step has answered: a new password is in nobody's hands but these
   */
  #advance(job: Job, claim: WorkLease, now: number, value?: unknown): Turn {
    const { jobs, work, endings } = this.#parts;
    const next = working.next(job.work, now);
    if (next === null) return { kind: "end", end: endings.finished(job, claim, value, now) };
    if (job.deadline !== null && now >= job.deadline) {
      const because = refuse("unavailable", `gave up after too long${job.failure ? `: ${job.failure}` : ""}`);
      return { kind: "end", end: endings.failed(job, job.work, claim, because, null, now) };
    }
    if ("wait" in next) {
      jobs.keep(job, {});
      if (next.wait <= LONGEST_PAUSE_MS) return { kind: "wait", ms: next.wait, claim: work.renew(claim, now) };
      work.complete(claim, { kind: "retry", afterMs: next.wait }, now);
      return { kind: "end", end: goesOn(work.find(job.id)?.readyAt ?? now + next.wait) };
    }
    if (!jobs.lock(job, now)) return { kind: "wait", ms: 0, claim: work.renew(claim, now), inLine: true };
    const account = this.#accountOf(job.work);
    if (!account.ok) return { kind: "end", end: endings.failed(job, job.work, claim, account, null, now) };
    const { steps, state } = runOf(working, job.work, next, now);
    const { seq } = jobs.keep(job, { work: state });
    const deadlineMs = Math.min(CALL_MS, (job.deadline ?? Number.POSITIVE_INFINITY) - now);
    return { kind: "steps", claim: work.renew(claim, now), steps, seq, account: account.value, deadlineMs };
  }

  #fail(job: Job, claim: WorkLease, step: Step, failure: CloudFailure, now: number): Turn {
    const because = refuse(
      failure.outcome === "client" ? "invalid" : "unavailable",
      `${doing(step)}: ${failure.message}`,
    );
    return { kind: "end", end: this.#parts.endings.failed(job, job.work, claim, because, failure, now) };
  }

  #accountOf(work: Work): Result<CloudAccount> {
    if (work.kind === "rotation") return ok(work.rotation.account);
    return work.kind === "removal" && work.account ? ok(work.account) : this.#parts.account();
  }

  /** The job is somebody else's, or over. */
  #elsewhere(wanted: Wanted | null, now: number): Turn {
    if (!wanted) return { kind: "idle" };
    const { jobs, work, endings } = this.#parts;
    const kind = jobs.kindOf(wanted.job);
    if (kind !== wanted.kind) return { kind: "end", end: endings.past(wanted, now) };
    const row = work.find(wanted.job);
    if (kind === "removal" && row && !row.leased && row.readyAt > now) {
      return { kind: "end", end: endings.past(wanted, now) };
    }
    return { kind: "wait", ms: LOOK_AGAIN_MS, claim: null };
  }
}

/** What a step is about, in words for people. */
function doing({ call }: Step): string {
  switch (call) {
    case "createApplication":
    case "createServicePrincipal":
    case "findServicePrincipals":
    case "addPrincipalPassword":
      return "error creating service principal";
    case "createRoleAssignment":
      return "error while assigning roles";
    case "addGroupMember":
      return "error while adding group membership";
    case "addApplicationPassword":
      return "error updating credentials";
    case "updateApplication":
      return "error updating Application";
    case "getApplication":
    case "findApplicationsByClientId":
    case "findApplicationsByName":
      return "error loading Application";
    case "getRoleDefinition":
      return "unable to lookup role by id";
    case "findRoleDefinitions":
      return "unable to lookup role by name";
    case "getGroup":
    case "findGroups":
      return "unable to lookup group";
    case "login":
      return "the new secret cannot be used";
    default:
      return "error removing credentials";
  }
}
