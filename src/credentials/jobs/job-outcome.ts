import type { CloudAccount, CloudFailure, NewPassword } from "../../contracts/cloud-directory.ts";
import type { JobEnd, JobRef } from "../../contracts/credential-engine.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import { cappedTtlWarning } from "../../platform/http/capped-ttl.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { warn } from "../../platform/observability/log.ts";
import { countInObject } from "../../platform/observability/metrics/object-counters.ts";
import { timeOf } from "../engine-events.ts";
import type { EngineStores } from "../engine-stores.ts";
import { orphansOfIssue, resourcesOf, undoOfIssue } from "../engines/azure/issue.ts";
import { applicationSearch, passwordRemoval, type Removal, undoOfProvision } from "../engines/azure/removal.ts";
import { orphansOfRotation, undoOfRotation } from "../engines/azure/rotation.ts";
import { secondsLeft } from "../leases/lease-store.ts";
import { CALL_MS } from "../runner/saga.ts";
import { continuesAt, done, HAND_OVER_MS, type Work, type WorkOf } from "./job.ts";
import type { Job } from "./job-store.ts";
import { RemovalRetry } from "./removal-retry.ts";

/**
 * The outcomes of jobs. Completes a job: commits the resources it created, or schedules their removal.
 *
 *     job        success                          failure
 *     issue      lease inserted                   removal of unfinished credentials
 *     role       role stored                      provision kept on the role, or removed
 *     rotation   root secret replaced             removal of the new secret
 *     removal    job (and its lease) deleted      another round, later each time (`RemovalRetry`)
 *
 * Owns no state of its own; writes jobs, leases, roles and the configuration. Methods run inside the object's
 * transaction.
 */
export class JobOutcomes {
  readonly #stores: EngineStores;
  readonly #sql: SqlStorage;
  readonly #retry: RemovalRetry;

  constructor(stores: EngineStores, sql: SqlStorage) {
    this.#stores = stores;
    this.#sql = sql;
    this.#retry = new RemovalRetry(stores);
  }

  /** Commits the resources of a job without a next step. @param value result of its last step */
  finish(job: Job, workLease: WorkLease, value: unknown, now: number): JobEnd {
    return this.#record(job.work.kind, this.#finish(job, workLease, value, now));
  }

  /** Rolls back a job that cannot continue, or keeps its state on record. @returns the refusal for the caller */
  fail(
    job: Job,
    work: Work,
    workLease: WorkLease,
    because: Refusal,
    failure: CloudFailure | null,
    now: number,
  ): JobEnd {
    return this.#record(work.kind, this.#fail(job, work, workLease, because, failure, now));
  }

  #record(kind: Work["kind"], end: JobEnd): JobEnd {
    countInObject(this.#sql, "sallyport_engine_jobs_ended_total", kind, end.ok ? "ok" : end.reason);
    return end;
  }

  #finish(job: Job, workLease: WorkLease, value: unknown, now: number): JobEnd {
    const { work } = job;
    switch (work.kind) {
      case "issue":
        return this.#completeIssue(job.id, work, (value as NewPassword).secretText, now);
      case "role":
        return this.#completeRole(job.id, work, now);
      case "rotation":
        return this.#completeRotation(job.id, work, now);
      case "removal":
        return this.#completeRemoval(job, work, workLease, now);
    }
  }

  #fail(
    job: Job,
    work: Work,
    workLease: WorkLease,
    because: Refusal,
    failure: CloudFailure | null,
    now: number,
  ): JobEnd {
    if (work.kind === "removal") return this.#retry.schedule(job, work, workLease, because, failure, now);
    warn("job-failed", { engine: this.#stores.scope, job: job.id, kind: work.kind, because: because.message });
    const { jobs, roles } = this.#stores;
    if (work.kind === "issue") {
      this.startRemoval(job.id, undoOfIssue(work.issue, now), "unfinished credentials", null, now, because.message);
      return because;
    }
    if (work.kind === "rotation") {
      this.rotationFailed(because.message, now);
      const undo = undoOfRotation(work.rotation, now);
      if (undo) this.startRemoval(job.id, undo, "unfinished rotation", work.rotation.account, now, because.message);
      else jobs.delete(job.id);
      return because;
    }
    const { name, provision } = work.write;
    const stored = roles.find(name);
    if (!provision) jobs.delete(job.id);
    else if (stored?.managed) {
      roles.put(name, { ...stored, managed: provision });
      jobs.delete(job.id);
    } else this.startRemoval(job.id, undoOfProvision(provision, now), "unfinished role", null, now, because.message);
    return because;
  }

  /** The outcome of a job that is over, was replaced, or waits for its next round. */
  outcomeOf(wanted: JobRef, now: number): JobEnd {
    const { jobs, leases, keys, work } = this.#stores;
    if (wanted.kind === "removal") {
      const job = jobs.find(wanted.job);
      if (!job) return done();
      // A removal without a failed round is only waiting for its next check.
      if (job.failures > 0 && job.failure !== null) return refuse("invalid", job.failure);
      return continuesAt(work.find(wanted.job)?.readyAt ?? now);
    }
    const lease = wanted.kind === "issue" ? leases.find(wanted.job) : null;
    if (lease?.state === "live" && lease.sealed) {
      const text = keys.openText(lease.sealed, this.#leaseContext(lease.id));
      const { clientId, clientSecret } = JSON.parse(text) as { clientId: string; clientSecret: string };
      const ttl = Math.max(1, secondsLeft(lease.expires, now));
      return done([], { leaseId: lease.id, ttl, renewable: lease.renewable === 1, clientId, clientSecret });
    }
    // The response with the secret was lost on its way to the Worker, and no other copy exists.
    if (lease?.state === "live") leases.expectHandOver(lease.id, now);
    const failure = jobs.find(wanted.job)?.failure;
    return refuse("unavailable", failure ?? "the request was interrupted; try again");
  }

  /** Starts a removal. It replaces the job of this id, if there is one. */
  startRemoval(
    id: string,
    removal: Removal,
    because: string,
    account: CloudAccount | null,
    now: number,
    failure: string | null = null,
    readyAt = now,
  ): void {
    const { jobs } = this.#stores;
    if (removal.items.length === 0 && !removal.search) {
      jobs.delete(id);
      return;
    }
    const work: Work = { kind: "removal", removal, because, account, lease: false };
    jobs.put({ id, work }, now, readyAt);
    if (failure !== null) jobs.setFailure(id, failure);
  }

  /** Stops a job early. Its removal starts after the longest call, because one of the job's calls may be in flight. */
  abandon(id: string, removal: Removal, because: string, account: CloudAccount | null, now: number): void {
    this.startRemoval(id, removal, because, account, now, GIVEN_UP, now + CALL_MS);
  }

  /** Schedules the retry of a rotation. @returns the refusal for the caller */
  rotationFailed(because: string, now: number): Refusal {
    this.#stores.config.rotationFailed(now);
    this.#stores.events.config("RootRotationFailed", { Error: because });
    return refuse("invalid", because);
  }

  #completeIssue(id: string, { issue, terms }: WorkOf<"issue">, clientSecret: string, now: number): JobEnd {
    const { jobs, leases, keys, scope, events } = this.#stores;
    const { resources, clientId, endsAt } = resourcesOf(issue);
    const wanted = now + terms.ttl * 1000;
    const ends = Math.min(endsAt, terms.until ?? endsAt);
    const expires = Math.min(wanted, ends);
    const isCut = expires < wanted && ends < endsAt;
    const kept = terms.repeat === null ? null : JSON.stringify({ clientId, clientSecret });
    leases.insert({
      id,
      role: terms.role,
      token: terms.token,
      resources,
      issued: now,
      expires,
      keyEnds: ends,
      handOverBy: terms.repeat === null ? now + (terms.handOverMs ?? HAND_OVER_MS) : null,
      repeat: terms.repeat,
      sealed: kept === null ? null : keys.seal(kept, this.#leaseContext(id)),
    });
    jobs.delete(id);
    const orphans = orphansOfIssue(issue, now);
    if (orphans) this.startRemoval(`strays ${id}`, orphans, "strays", null, now);
    recordAction("lease-issued", { engine: scope, lease: id, token: terms.token, role: terms.role, ttl: terms.ttl });
    events.lease("LeaseIssued", id, { Role: terms.role, ExpireTime: timeOf(expires) });
    const ttl = Math.max(1, secondsLeft(expires, now));
    const warnings = isCut ? [cappedTtlWarning(terms.ttl, ttl)] : terms.warnings;
    return done(warnings, { leaseId: id, ttl, renewable: true, clientId, clientSecret });
  }

  #completeRole(id: string, { write }: WorkOf<"role">, now: number): JobEnd {
    const { jobs, roles, scope, events } = this.#stores;
    jobs.delete(id);
    if (write.problem !== null) return refuse("invalid", write.problem);
    const { name, role, provision } = write;
    const before = roles.find(name)?.managed ?? null;
    roles.put(
      name,
      provision
        ? {
            ...role,
            managed: { ...provision, strays: false },
            application_object_id: provision.made?.objectId ?? "",
            application_id: provision.made?.clientId ?? "",
          }
        : { ...role, managed: null },
    );
    if (provision?.strays) {
      const { application, made } = provision;
      this.startRemoval(
        `strays ${id}`,
        applicationSearch(application.displayName, made?.objectId ?? "", now),
        "strays",
        null,
        now,
      );
    }
    // From now on the role creates a principal for each lease.
    if (before && !provision)
      this.startRemoval(`kept ${id}`, undoOfProvision(before, now), "application of a role", null, now);
    events.role("RoleWritten", name);
    recordAction("role-written", { engine: scope, role: name });
    return done();
  }

  #completeRotation(id: string, { rotation }: WorkOf<"rotation">, now: number): JobEnd {
    const { jobs, config, scope, events } = this.#stores;
    const { add, secret, problem, replaces } = rotation;
    jobs.delete(id);
    if (problem !== null || !add?.key || secret === null) {
      return this.rotationFailed(problem ?? "no secret was made", now);
    }
    config.promote(secret, add.key.keyId, add.key.endsAt, now);
    const orphans = orphansOfRotation(rotation, now);
    if (orphans) this.startRemoval(`strays ${id}`, orphans, "strays", null, now);
    if (replaces !== null)
      this.startRemoval(id, passwordRemoval(add.application, replaces, 0), "replaced root secret", null, now);
    events.config("RootRotated", { KeyID: add.key.keyId });
    recordAction("root-rotated", { engine: scope, key: add.key.keyId, replaced: replaces });
    return done(replaces === null ? [OLD_STAYS] : []);
  }

  #completeRemoval(job: Job, work: WorkOf<"removal">, workLease: WorkLease, now: number): JobEnd {
    if (work.removal.stuck.length > 0) {
      return this.#retry.schedule(
        job,
        work,
        workLease,
        refuse("invalid", job.failure ?? "it could not be removed"),
        null,
        now,
      );
    }
    const { jobs, leases, scope, events } = this.#stores;
    jobs.delete(job.id);
    if (work.lease) leases.delete(job.id);
    if (work.lease) events.lease("LeaseRevoked", job.id);
    recordAction(work.lease ? "lease-revoked" : "removed", { engine: scope, job: job.id, what: work.because });
    return done();
  }

  #leaseContext(id: string): string {
    return `${this.#stores.scope} lease ${id}`;
  }
}

const GIVEN_UP = "it was given up before it was complete";
const OLD_STAYS =
  "the secret before could not be told from the application's other secrets and was not removed; remove it by hand";
