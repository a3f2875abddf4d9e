import { createHash } from "node:crypto";
import type { IssueRequest, IssueStarted, LeaseRow, Started } from "../../contracts/credential-engine.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import type { EngineJobs } from "../engine-jobs.ts";
import { plainName } from "../engines/description.ts";
import type { EngineStates } from "../engines/engine-type.ts";
import { HAND_OVER_MS, type LeaseRequest } from "../jobs/job.ts";
import type { Job } from "../jobs/job-store.ts";
import { REQUEST_MS } from "../runner/saga-runner.ts";
import { leaseTtlOf, passwordLife, type RoleTtls } from "./lease-ttl.ts";
import { type LeaseUser, lastEnd } from "./lease-users.ts";
import { isShareable, isWhollyRenewable, shareKey } from "./share-lease.ts";

/** The place of the role's name in a path. */
const NAME = ":name";

/** The circumstances of a request; see `begin`. */
interface Moment {
  readonly now: number;
  readonly admitted: string | null;
  readonly isFrozen: boolean;
}

/** Starts credentials for requests, and abandons unfinished ones. Owns no state; one issue is one job in `jobs`. */
export class CredentialIssuer {
  constructor(private readonly jobs: EngineJobs) {}

  /**
   * Starts new credentials, or finds the job or lease of an earlier request with the same key.
   * @param admitted id of a lease that may have credentials of the role's pool; null: none may
   * @param isFrozen the object refuses writes, and with them the request
   */
  begin(ask: IssueRequest, now: number, admitted: string | null = null, isFrozen = false): Result<IssueStarted> {
    const { type, roles } = this.jobs.stores;
    const role = roles.find(ask.role);
    const metadata = (role && type.roles.metadata?.(role)) ?? null;
    const percent = this.#sharePercent(ask, role);
    const moment = { now, admitted, isFrozen };
    if (role && percent > 0) return this.#beginShared(ask, role, percent, moment);
    const repeat = repeatOf(ask);
    const known = repeat === null ? null : this.#ofRepeat(repeat);
    if (known !== null) return ok({ wanted: { job: known, kind: "issue" }, polled: null, metadata });
    return this.#start(ask, role, repeat, null, moment);
  }

  /**
   * The id of a lease for credentials of the role's pool, which `begin` takes once the lease is admitted; null when there
   * are none, or the request has a lease already.
   */
  offer(ask: IssueRequest, now: number): string | null {
    const { type, config, roles, pool } = this.jobs.stores;
    const row = type.pool ? pool.find(ask.role) : null;
    const role = row && roles.find(ask.role);
    if (!row || !role || config.refusesNew(now)) return null;
    const repeat = this.#sharePercent(ask, role) > 0 ? shareKey(ask, role) : repeatOf(ask);
    if (repeat !== null && this.#ofRepeat(repeat) !== null) return null;
    return pool.has(row, passwordLife(this.#ttlsOf(ask, role), ask.mount) * 1000, now) ? newLeaseId(ask) : null;
  }

  #ofRepeat(repeat: string): string | null {
    const { leases, jobs } = this.jobs.stores;
    return leases.ofRepeat(repeat)?.id ?? jobs.ofRepeat(repeat);
  }

  #sharePercent({ key, sharer }: IssueRequest, role: EngineStates["role"] | null): number {
    return role && key === null && sharer ? (this.jobs.stores.type.roles.sharePercent?.(role) ?? 0) : 0;
  }

  #ttlsOf({ request = {} }: IssueRequest, role: EngineStates["role"]): RoleTtls {
    const { type, config } = this.jobs.stores;
    const wanted = type.issue.ttlOf?.(request, role) ?? 0;
    const ofRole = type.roles.ttls(role, () => config.find());
    return wanted > 0 ? { ...ofRole, ttl: wanted } : ofRole;
  }

  /** Finds the lease that the caller has been given for an equal request, or starts one that later requests share. */
  #beginShared(ask: IssueRequest, role: EngineStates["role"], percent: number, moment: Moment): Result<IssueStarted> {
    const { now } = moment;
    const { type, leases, leaseUsers, jobs, scope } = this.jobs.stores;
    const repeat = shareKey(ask, role);
    const user: LeaseUser = { token: ask.token, until: ask.until ?? null };
    const { ttl, maxTtl } = leaseTtlOf(this.#ttlsOf(ask, role), ask.mount);
    const lease = leases.ofRepeat(repeat);
    if (lease && !isShareable(lease, ttl, percent, now)) this.jobs.commit(() => leases.unshare(lease.id));
    const known = lease && isShareable(lease, ttl, percent, now) ? lease.id : jobs.ofRepeat(repeat);
    if (known === null) {
      const started = this.#start(ask, role, repeat, user, moment);
      return started.ok ? ok({ ...started.value, shared: { renewable: true, known: false } }) : started;
    }
    const expires = this.jobs.commit(() => {
      leaseUsers.add(known, user);
      return lease && this.#lengthen(lease, ttl);
    });
    recordAction("lease-shared", { engine: scope, lease: known, token: ask.token, role: ask.role });
    const metadata = type.roles.metadata?.(role) ?? null;
    const last = lease && Math.min(lease.issued + maxTtl * 1000, lastEnd(lease.key_ends, leaseUsers.of(known)));
    const renewable = last === null || expires === null || isWhollyRenewable(expires, last, now);
    return ok({ wanted: { job: known, kind: "issue" }, polled: null, metadata, shared: { renewable, known: true } });
  }

  /** Gives a shared lease that ended with an earlier user the end of its longest one. @returns its end */
  #lengthen({ id, issued, expires, key_ends: keyEnds }: LeaseRow, ttl: number): number {
    const { leases, leaseUsers } = this.jobs.stores;
    const end = Math.max(expires, Math.min(issued + ttl * 1000, lastEnd(keyEnds, leaseUsers.of(id))));
    if (end > expires) leases.setEnd(id, end);
    return end;
  }

  /** @param user of a lease that is shared; null for another */
  #start(
    ask: IssueRequest,
    role: EngineStates["role"] | null,
    repeat: string | null,
    user: LeaseUser | null,
    { now, admitted, isFrozen }: Moment,
  ): Result<IssueStarted> {
    const { type, config, leaseUsers } = this.jobs.stores;
    const refusal = config.refusesNew(now);
    if (refusal) return refusal;
    const engine = this.jobs.accounts.account();
    if (!engine.ok) return engine;
    const { at = "creds", role: name, displayName = "", request = {} } = ask;
    if (!role) return refuse("invalid", type.roles.missing?.(name, at) ?? `role '${plainName(name)}' does not exist`);
    const ttls = this.#ttlsOf(ask, role);
    const lifeMs = passwordLife(ttls, ask.mount) * 1000;
    const leaseTtls = leaseTtlOf(ttls, ask.mount);
    const metadata = type.roles.metadata?.(role) ?? null;
    const handOverMs = HAND_OVER_MS + (ask.verified ? REQUEST_MS : 0);
    const { token, until } = ask;
    const terms = { role: name, token, until, repeat, handOverMs, ...leaseTtls };
    const taken = type.pool ? this.#take(terms, lifeMs, user, { now, admitted }) : null;
    if (taken) return ok({ ...taken, metadata });
    const begun = type.issue.begin(role, {
      account: engine.value,
      lifeMs,
      ttlMs: leaseTtls.ttl * 1000,
      maxTtlMs: leaseTtls.maxTtl * 1000,
      name,
      at,
      displayName,
      request,
    });
    if (!begun.ok) return begun;
    const issue = begun.value;
    const id = newLeaseId(ask);
    const lock = type.issue.lock?.(issue) ?? null;
    const job = { id, work: { kind: "issue", issue, terms } as const, lock, deadline: now + REQUEST_MS };
    // A quota counts the jobs with rows.
    const isAlone = lock === null && repeat === null && !ask.counted && !isFrozen;
    const unstored = isAlone ? this.jobs.runner.startUnstored(job, now) : null;
    if (unstored) return ok({ ...unstored, metadata });
    const started = this.jobs.commit(() => {
      this.jobs.accounts.follow();
      if (user) leaseUsers.add(id, user);
      return job.lock ? this.jobs.runner.start(job, now) : this.jobs.runner.startNew(job, now);
    });
    return ok({ ...started, metadata });
  }

  /** Takes credentials of the role's pool and leases them in one transaction; null when there are none. */
  #take(
    terms: LeaseRequest,
    lifeMs: number,
    user: LeaseUser | null,
    { now, admitted }: Pick<Moment, "now" | "admitted">,
  ): Started | null {
    const { pool, leaseUsers } = this.jobs.stores;
    const row = pool.find(terms.role);
    if (!row || row.size === 0) return null;
    return this.jobs.commit(() => {
      this.jobs.accounts.follow();
      // The mount was tuned since the role was written.
      if (lifeMs > row.life) pool.setLife(row.role, lifeMs);
      const outcome = admitted === null ? null : pool.take(row, lifeMs, now);
      this.jobs.outcomes.countPoolRequest(outcome ? "hit" : "miss");
      if (!outcome || admitted === null) return null;
      if (user) leaseUsers.add(admitted, user);
      const end = this.jobs.outcomes.leasePooled(admitted, terms, outcome, now);
      return { wanted: { job: admitted, kind: "issue" }, polled: { kind: "end", end } };
    });
  }

  /** Deletes a job before its first call; nothing has been created for it. */
  cancel(job: string): void {
    this.jobs.stores.unstored.delete(job);
    this.jobs.commit(() => {
      this.jobs.stores.jobs.delete(job);
      this.jobs.stores.leaseUsers.forget(job);
    });
  }

  /** Ends the shared leases of an ended token that it used last, and abandons its shared jobs. Runs inside a transaction. */
  userEnded(token: string, now: number): void {
    for (const lease of this.jobs.stores.leaseUsers.leasesOf(token)) this.removeUser(lease, token, now);
  }

  /** Removes a user of a shared lease, which ends with its longest one. Runs inside a transaction. */
  removeUser(id: string, token: string, now: number): void {
    const { leases, leaseUsers, jobs } = this.jobs.stores;
    leaseUsers.remove(id, token);
    const users = leaseUsers.of(id);
    const lease = leases.find(id);
    if (lease) leases.setEnd(id, Math.min(lease.expires, users.length === 0 ? now : lastEnd(lease.key_ends, users)));
    const job = lease || users.length > 0 ? null : jobs.find(id);
    if (job) this.#abandon(job, now);
  }

  /**
   * Marks the response of a lease as sent, before it is sent. @returns false if the lease has ended: no response with
   * secrets
   */
  handOver(lease: string): boolean {
    const { leases } = this.jobs.stores;
    const row = leases.find(lease);
    if (row?.state !== "live" || row.expires <= Date.now()) return false;
    if (row.hand_over_by !== null) this.jobs.commit(() => leases.handOver(lease));
    return true;
  }

  /** Abandons the unfinished credentials of a token. Runs inside a transaction. */
  abandonForToken(token: string, now: number): void {
    const { jobs, leaseUsers, unstored } = this.jobs.stores;
    unstored.deleteOf(token);
    // Other callers wait for a shared one.
    for (const job of jobs.issuesOf(token)) if (leaseUsers.of(job.id).length === 0) this.#abandon(job, now);
  }

  /** Abandons all unfinished credentials. Runs inside a transaction. */
  abandonAll(now: number): void {
    this.jobs.stores.unstored.clear();
    for (const job of this.jobs.stores.jobs.ofKind("issue")) this.#abandon(job, now);
  }

  /** A call may be in flight, so the removal starts after the longest call. */
  #abandon(job: Job, now: number): void {
    const { work } = job;
    if (work.kind !== "issue") return;
    const undo = this.jobs.stores.type.issue.undo(work.issue, now);
    this.jobs.outcomes.abandon({ ...job, because: "unfinished credentials" }, undo, now);
  }
}

/** A new id of a lease: the path of the request, and a part of its own. */
function newLeaseId({ at = "creds", role }: IssueRequest): string {
  const plain = plainName(role);
  const path = at.includes(NAME) ? at.replace(NAME, plain) : `${at}/${plain}`;
  return `${path}/${randomText(24)}`;
}

/** Identifies repeats of a request; null without an idempotency key. */
const repeatOf = ({ key, role, token }: IssueRequest): string | null =>
  key === null ? null : digest([key, role, token]);

const digest = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("base64url");
