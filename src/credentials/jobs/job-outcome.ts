import type { CloudFailure } from "../../contracts/cloud-calls.ts";
import type { JobEnd, JobRef, MountTtls } from "../../contracts/credential-engine.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import { cappedTtlWarning } from "../../platform/http/capped-ttl.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { warn } from "../../platform/observability/log.ts";
import { countInObject } from "../../platform/observability/metrics/object-counters.ts";
import { timeOf } from "../engine-events.ts";
import type { EngineStores } from "../engine-stores.ts";
import { plainName, rolePath } from "../engines/description.ts";
import type { EngineStates, IssueOutcome } from "../engines/engine-type.ts";
import { secondsLeft } from "../leases/lease-store.ts";
import { passwordLife } from "../leases/lease-ttl.ts";
import { lastEnd } from "../leases/lease-users.ts";
import { nextFill } from "../pool/pool-store.ts";
import { isEmpty, type RemovalState, searching } from "../runner/removal.ts";
import { CALL_MS } from "../runner/saga.ts";
import { continuesAt, done, HAND_OVER_MS, INTERRUPTED, type LeaseRequest, type Work, type WorkOf } from "./job.ts";
import type { Job } from "./job-store.ts";
import { RemovalRetry } from "./removal-retry.ts";

/** The job of a removal. */
interface Owner {
  readonly id: string;
  /** Id of the identity that made the resources. */
  readonly account: number;
  /** Their owner, for the operator. */
  readonly because: string;
  /** The identity with its secret of that time; absent: with its newest. */
  readonly by?: object;
}

/**
 * The outcomes of jobs. Completes a job: commits the resources it created, or schedules their removal.
 *
 *     job        success                          failure
 *     issue      lease inserted                   removal of unfinished credentials
 *     renewal    lease extended                   lease unchanged
 *     pool       credentials are ready            removal of unfinished credentials; filled later
 *     role       role stored                      provision kept on the role, or removed
 *     rotation   root secret replaced             removal of the new secret
 *     removal    job (and its lease) deleted      another round, later each time (`RemovalRetry`)
 *
 * Owns no state of its own; writes jobs, leases, roles and the configuration. Methods run inside the object's
 * transaction.
 */
export class JobOutcomes {
  readonly #retry: RemovalRetry;

  constructor(
    private readonly stores: EngineStores,
    private readonly sql: SqlStorage,
  ) {
    this.#retry = new RemovalRetry(stores);
  }

  /** Commits the resources of a job without a next step. @param value result of its last step */
  finish(job: Job, workLease: WorkLease, value: unknown, now: number): JobEnd {
    return this.#record(job, this.#finish(job, workLease, value, now));
  }

  /** Commits the credentials of a job without a row. */
  finishUnstored(job: Job, work: WorkOf<"issue">, value: unknown, now: number): JobEnd {
    return this.#record(job, this.#completeIssue(job, work, value, now));
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
    return this.#record(job, this.#fail(job, work, workLease, because, failure, now));
  }

  #record({ work: { kind }, account }: Job, end: JobEnd): JobEnd {
    this.#count(kind, end);
    this.stores.pruneAccount(account);
    return end;
  }

  #count(kind: Work["kind"], end: JobEnd): void {
    countInObject(this.sql, "sallyport_engine_jobs_ended_total", kind, end.ok ? "ok" : end.reason);
  }

  #finish(job: Job, workLease: WorkLease, value: unknown, now: number): JobEnd {
    const { work } = job;
    switch (work.kind) {
      case "issue":
        this.stores.jobs.delete(job.id);
        return this.#completeIssue(job, work, value, now);
      case "renewal":
        return this.#completeRenewal(job.id, work, now);
      case "pool":
        return this.#completePool(job, work, now);
      case "role":
        return this.#completeRole(job, work, now);
      case "rotation":
        return this.#completeRotation(job, work, now);
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
    warn("job-failed", { engine: this.stores.scope, job: job.id, kind: work.kind, because: because.message });
    const { type, events } = this.stores;
    if (work.kind === "issue") {
      events.credentials("CredentialsFailed", work.terms.role, job.id, { Error: because.message });
      this.stores.leaseUsers.forget(job.id);
      const undo = type.issue.undo(work.issue, now);
      this.startRemoval({ ...job, because: "unfinished credentials" }, undo, now, because.message);
    } else if (work.kind === "pool") {
      this.#failPool(job, work, because, failure, now);
    } else if (work.kind === "rotation") {
      this.rotationFailed(because.message, now);
      const undo = searching(type.rotation?.undo(work.rotation, now) ?? null, job);
      this.#undo({ ...job, because: "unfinished rotation", by: work.rotation.account }, undo, because, now);
    } else if (work.kind === "renewal") this.stores.jobs.delete(job.id);
    else this.#failRole(job, work, because, now);
    return because;
  }

  /** Undoes a role write. The role of an earlier write stays, with a record of what this one has made. */
  #failRole(job: Job, { write, due }: WorkOf<"role">, because: Refusal, now: number): void {
    const { type, jobs, roles } = this.stores;
    if (due) this.keptFailed(write.name, because.message, now);
    const undo = type.roles.undo(write, roles.find(write.name), now);
    if (undo && "role" in undo) {
      roles.put(write.name, undo.role, roles.account(write.name));
      jobs.delete(job.id);
    } else this.#undo({ ...job, because: "unfinished role" }, undo?.removal ?? null, because, now);
  }

  /** Schedules the retry of a replacement of the credentials that a role keeps. */
  keptFailed(role: string, because: string, now: number): void {
    const { type, kept, events } = this.stores;
    kept.failed(role, now);
    events.role("RoleRotationFailed", rolePath(type.description, role), { Error: because });
  }

  #undo(owner: Owner, removal: RemovalState | null, because: Refusal, now: number): void {
    if (removal) this.startRemoval(owner, removal, now, because.message);
    else this.stores.jobs.delete(owner.id);
  }

  /** The outcome of a job that is over, was replaced, or waits for its next round. */
  outcomeOf(wanted: JobRef, now: number): JobEnd {
    const { type, jobs, leases, keys, work, unstored } = this.stores;
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
      const ttl = Math.max(1, secondsLeft(lease.expires, now));
      const data = type.issue.data(JSON.parse(text) as object, ttl);
      return done([], { leaseId: lease.id, ttl, renewable: lease.renewable === 1, data });
    }
    // The response with the secret was lost on its way to the Worker, and no other copy exists.
    if (lease?.state === "live") leases.expectHandOver(lease.id, now);
    const failure = jobs.find(wanted.job)?.failure;
    const isKnown = lease || failure || unstored.hasSettled(wanted.job);
    return isKnown ? refuse("unavailable", failure ?? INTERRUPTED.message) : INTERRUPTED;
  }

  /** Starts a removal. It replaces the job of this id, if there is one. */
  startRemoval(
    { id, account, because, by }: Owner,
    removal: RemovalState,
    now: number,
    failure: string | null = null,
    readyAt = now,
  ): void {
    const { jobs } = this.stores;
    if (isEmpty(removal)) {
      jobs.delete(id);
      return;
    }
    const work: Work = { kind: "removal", removal, because, account: by ?? null, lease: false };
    jobs.put({ id, work, account }, now, readyAt);
    if (failure !== null) jobs.setFailure(id, failure);
  }

  /** Stops a job early. Its removal starts after the longest call, because one of the job's calls may be in flight. */
  abandon(owner: Owner, removal: RemovalState, now: number): void {
    this.stores.leaseUsers.forget(owner.id);
    this.startRemoval(owner, removal, now, GIVEN_UP, now + CALL_MS);
  }

  /** Schedules the retry of a rotation. @returns the refusal for the caller */
  rotationFailed(because: string, now: number): Refusal {
    this.stores.config.rotationFailed(now);
    const { events, type } = this.stores;
    events.config("RootRotationFailed", type.description.paths.config, { Error: because });
    return refuse("invalid", because);
  }

  #completeIssue({ id, account }: Job, { issue, terms }: WorkOf<"issue">, value: unknown, now: number): JobEnd {
    const { type } = this.stores;
    const outcome = type.issue.outcome(issue, value, now);
    if (outcome.lease === "none") return this.#completeUnleased(id, terms, outcome.secret, outcome.endsAt, now);
    const end = this.#lease({ id, account }, terms, outcome, now);
    const orphans = type.issue.orphans(issue, now);
    if (orphans) this.startRemoval({ id: `strays ${id}`, account, because: "strays" }, orphans, now);
    return end;
  }

  /** Gives credentials of a pool to a caller. Runs inside a transaction. @param id of the lease */
  leasePooled(id: string, terms: LeaseRequest, outcome: IssueOutcome<EngineStates>, now: number): JobEnd {
    const end = this.#lease({ id, account: this.stores.accounts.current() }, terms, outcome, now);
    this.#count("issue", end);
    return end.ok && end.issued ? { ...end, issued: { ...end.issued, verified: true } } : end;
  }

  /** Counts requests for credentials of roles with a pool. */
  countPoolRequest(outcome: "hit" | "miss"): void {
    countInObject(this.sql, "sallyport_engine_pool_requests_total", outcome);
  }

  #lease(
    { id, account }: Pick<Owner, "id" | "account">,
    terms: LeaseRequest,
    outcome: IssueOutcome<EngineStates>,
    now: number,
  ): JobEnd {
    const { type, leases, leaseUsers, keys, scope, events } = this.stores;
    const { resources, secret, endsAt, renewable = true, lease } = outcome;
    // A shared lease is found again by its key.
    const users = terms.repeat === null ? [] : leaseUsers.of(id);
    const wanted = lease === "secret" ? endsAt : now + terms.ttl * 1000;
    const ends = users.length > 0 ? lastEnd(endsAt, users) : Math.min(endsAt, terms.until ?? endsAt);
    const expires = Math.min(wanted, ends);
    const isCut = expires < wanted && ends < endsAt;
    const kept = terms.repeat === null ? null : JSON.stringify(secret);
    // Credentials that end by themselves leave nothing at the provider when their answer is lost.
    const leavesAtOnce = terms.repeat !== null || isEmpty(type.removal.ofLease(resources, now));
    leases.insert({
      id,
      role: terms.role,
      token: terms.token,
      resources,
      issued: now,
      expires,
      // Later users of a shared lease may need it for longer.
      keyEnds: users.length > 0 ? endsAt : ends,
      renewable,
      handOverBy: leavesAtOnce ? null : now + (terms.handOverMs ?? HAND_OVER_MS),
      repeat: terms.repeat,
      sealed: kept === null ? null : keys.seal(kept, this.#leaseContext(id)),
      account,
    });
    const ttl = Math.max(1, secondsLeft(expires, now));
    const desired = secondsLeft(wanted, now);
    recordAction("lease-issued", { engine: scope, lease: id, token: terms.token, role: terms.role, ttl: desired });
    events.credentials("CredentialsIssued", terms.role, id);
    events.lease("LeaseIssued", id, { Role: terms.role, ExpireTime: timeOf(expires) });
    const warnings = isCut ? [cappedTtlWarning(desired, ttl)] : lease === "secret" ? [] : terms.warnings;
    const data = type.issue.data(secret, ttl);
    return done(warnings, { leaseId: id, ttl, renewable, data, ...(leavesAtOnce && { leavesAtOnce }) });
  }

  /** Completes credentials without a lease. Their text is in this answer only. */
  #completeUnleased(
    id: string,
    { role, token }: WorkOf<"issue">["terms"],
    secret: object,
    endsAt: number,
    now: number,
  ) {
    const { type, scope, events } = this.stores;
    this.stores.leaseUsers.forget(id);
    const ttl = Math.max(1, secondsLeft(endsAt, now));
    recordAction("credentials-issued", { engine: scope, token, role, ttl });
    events.credentials("CredentialsIssued", role, id);
    return done([], { leaseId: null, ttl, renewable: false, data: type.issue.data(secret, ttl) });
  }

  /** Makes credentials of a pool ready, if their role still wants them. */
  #completePool({ id, account }: Job, { pooling }: WorkOf<"pool">, now: number): JobEnd {
    const { type, jobs, pool, scope } = this.stores;
    const { role, content, issue, made } = pooling;
    const row = pool.find(role);
    if (!made || row?.content !== content || pool.count(role) >= row.size) {
      this.startRemoval({ id, account, because: UNLEASED }, type.issue.undo(issue, now), now);
      pool.setDue(role, now);
      return done();
    }
    const pooled = id.replace("pool-fill", "pooled");
    pool.add(pooled, row, made, now);
    jobs.delete(id);
    const orphans = type.issue.orphans(issue, now);
    if (orphans) this.startRemoval({ id: `strays ${id}`, account, because: "strays" }, orphans, now);
    recordAction("credentials-pooled", { engine: scope, role, pooled });
    return done();
  }

  #failPool(
    { id, account }: Job,
    { pooling: { role, issue } }: WorkOf<"pool">,
    because: Refusal,
    failure: CloudFailure | null,
    now: number,
  ): void {
    const { type, pool } = this.stores;
    this.startRemoval({ id, account, because: UNLEASED }, type.issue.undo(issue, now), now, because.message);
    const row = pool.find(role);
    if (row) pool.failed(role, because.message, nextFill(row, failure, now));
  }

  /** Sets the pool of a role that was written, or ends it. */
  #setPool(name: string, role: EngineStates["role"], mount: MountTtls | undefined): void {
    const { type, config, pool } = this.stores;
    const spec = type.pool?.of(role);
    if (!spec || (spec.size === 0 && !pool.find(name))) return;
    const ttls = type.roles.ttls(role, () => config.find());
    pool.put(name, spec, passwordLife(ttls, mount ?? { default_lease_ttl: 0, max_lease_ttl: 0 }) * 1000);
  }

  #completeRenewal(id: string, work: WorkOf<"renewal">, now: number): JobEnd {
    const { lease, from, expires, renewable, warnings } = work;
    const { jobs, leases, leaseUsers } = this.stores;
    jobs.delete(id);
    const row = leases.find(lease);
    // Its token, or all of its users, may have ended since the call. Its own end is what the renewal moves.
    if (row?.state !== "live" || (row.expires <= now && row.expires !== from))
      return refuse("invalid", "lease expired");
    const end = Math.min(expires, lastEnd(row.key_ends, leaseUsers.of(lease)));
    const ttl = secondsLeft(end, now);
    const cut = end < expires ? [cappedTtlWarning(secondsLeft(expires, now), ttl)] : [];
    const isRenewable = renewable && cut.length === 0;
    this.extend(lease, end, isRenewable, now);
    return { ...done(), renewed: { ttl, renewable: isRenewable, warnings: [...warnings, ...cut] } };
  }

  /** Records the renewal of a lease. Runs inside a transaction. */
  extend(id: string, expires: number, renewable: boolean, now: number): void {
    const { leases, scope, events } = this.stores;
    leases.extend(id, expires, renewable, now);
    events.lease("LeaseRenewed", id, { ExpireTime: timeOf(expires) });
    recordAction("lease-renewed", { engine: scope, lease: id, expires });
  }

  #completeRole(job: Job, work: WorkOf<"role">, now: number): JobEnd {
    const { type, jobs, roles, kept, scope, events } = this.stores;
    const { write, due, mount } = work;
    const { name } = write;
    const taken = this.taken(write);
    if (taken) {
      this.#failRole(job, work, taken, now);
      return taken;
    }
    jobs.delete(job.id);
    const known = roles.find(name);
    const outcome = type.roles.outcome(write, known, now);
    if ("problem" in outcome) {
      if (due) warn("job-failed", { engine: scope, job: job.id, kind: work.kind, because: outcome.problem });
      if (due) this.keptFailed(name, outcome.problem, now);
      return refuse("invalid", outcome.problem);
    }
    const { role, removals, keeps, warnings } = outcome;
    const before = roles.account(name);
    roles.put(name, role, job.account);
    this.#setPool(name, role, mount);
    if (keeps) kept.put(name, keeps);
    for (const { of, removal, because, former } of removals) {
      this.startRemoval({ id: `${of} ${job.id}`, account: former ? before : job.account, because }, removal, now);
    }
    const path = rolePath(type.description, name);
    if (!due) events.role("RoleWritten", path, { Created: known === null });
    if (!due) recordAction("role-written", { engine: scope, role: name });
    if (keeps?.secret !== undefined && known) {
      events.role("RoleRotated", path, { ExpireTime: timeOf(keeps.due) });
      recordAction("role-rotated", { engine: scope, role: name });
    }
    return done(warnings);
  }

  /** The refusal of a write whose subject has the kept credentials of another role; null otherwise. */
  taken(write: EngineStates["write"]): Refusal | null {
    const { type, kept } = this.stores;
    const subject = type.roles.kept?.subjectOf(write) ?? null;
    const other = subject === null ? null : kept.roleOf(subject);
    if (subject === null || other === null || other === write.name) return null;
    return refuse("invalid", type.roles.kept?.taken(subject, plainName(other)) ?? "");
  }

  #completeRotation({ id, account, lock }: Job, { rotation }: WorkOf<"rotation">, now: number): JobEnd {
    const { type, jobs, config, accounts, scope, events } = this.stores;
    jobs.delete(id);
    const outcome = type.rotation?.outcome(rotation, now) ?? { problem: "the type has no rotation" };
    if ("problem" in outcome) return this.rotationFailed(outcome.problem, now);
    const { promote, keyId, replaced, removal, warnings, data } = outcome;
    const orphans = searching(outcome.orphans, { lock });
    config.promote(promote, now);
    accounts.secretReplaced();
    if (orphans) this.startRemoval({ id: `strays ${id}`, account, because: "strays" }, orphans, now);
    if (removal) this.startRemoval({ id, account, because: "replaced root secret" }, removal, now);
    events.config("RootRotated", type.description.paths.config, { KeyID: keyId });
    recordAction("root-rotated", { engine: scope, key: keyId, replaced });
    return { ...done(warnings), ...(data && { data }) };
  }

  #completeRemoval(job: Job, work: WorkOf<"removal">, workLease: WorkLease, now: number): JobEnd {
    if (work.removal.stuck.length > 0) {
      const because = refuse("invalid", job.failure ?? "it could not be removed");
      return this.#retry.schedule(job, work, workLease, because, null, now);
    }
    const { jobs, scope } = this.stores;
    jobs.delete(job.id);
    if (work.lease) this.leaseRevoked(job.id, work.because);
    else recordAction("removed", { engine: scope, job: job.id, what: work.because });
    return done();
  }

  /** Deletes a lease of which nothing is left at the provider. Runs inside a transaction. */
  leaseRevoked(id: string, because: string): void {
    const { leases, scope, events } = this.stores;
    leases.delete(id);
    events.lease("LeaseRevoked", id);
    recordAction("lease-revoked", { engine: scope, job: id, what: because });
  }

  #leaseContext(id: string): string {
    return `${this.stores.scope} lease ${id}`;
  }
}

/** The owner of credentials of a pool, for the operator. */
export const UNLEASED = "credentials of a pool";

const GIVEN_UP = "it was given up before it was complete";
