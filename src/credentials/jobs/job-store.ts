import { upperBound } from "../../lib/text-range.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { Sealed } from "../../platform/crypto/keyring.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import { LEASE_MS, WORK, type WorkQueue } from "../../platform/durable/work-queue.ts";
import type { AccountStore } from "../mount/account-store.ts";
import { LockQueue } from "../runner/lock-queue.ts";
import type { Work } from "./job.ts";

interface JobRow extends Record<string, SqlStorageValue> {
  id: string;
  kind: string;
  sealed: ArrayBuffer;
  token: string | null;
  repeat: string | null;
  lock: string | null;
  locked: number;
  deadline: number | null;
  seq: number;
  tries: number;
  failures: number;
  failure: string | null;
  created: number;
  account: number;
}

/** The usual number of requests in progress for one engine. */
const MAX_CACHED = 64;
/** A caller polls for its lock after this time, far below the time after which a silent job is skipped. */
const LOCK_POLL_MS = 2_000;
/** A waiting job without a poll for this long has lost its Worker, and is skipped. */
const SKIPPED_AFTER_MS = 5_000;

/** A unit of work in progress. */
export interface Job {
  readonly id: string;
  readonly work: Work;
  /** Name of a lock that only one job holds at a time; null without one. */
  readonly lock: string | null;
  /** Time at which the job is abandoned, ms since 1970; null for never. */
  readonly deadline: number | null;
  /** Version of the job's state; it rises with each stored change, and identifies the steps in flight. */
  readonly seq: number;
  /** Earlier attempts of the next step. */
  readonly tries: number;
  /** Failed rounds, and the message of the last one. */
  readonly failures: number;
  readonly failure: string | null;
  /** Id of the identity that makes or made the resources of the job; see `EngineAccounts`. */
  readonly account: number;
  /** Of a job without a row: `keep` inserts it. */
  readonly created?: number;
}

/** `account`: absent for the identity of new calls. */
export type NewJob = Pick<Job, "id" | "work"> & {
  readonly lock?: string | null;
  readonly deadline?: number;
  readonly account?: number;
};

/**
 * The jobs of one engine, each with a row in `work` that holds its lease and its next time. Read by `SagaRunner` and by
 * the classes that start jobs. The state of a job is sealed, because it can hold a new secret. A poll costs no read of
 * the row: the last `MAX_CACHED` jobs are kept in memory. Writes run inside the object's transaction.
 */
export class JobStore {
  readonly #work: WorkQueue;
  readonly #accounts: AccountStore;
  /** The most recently stored jobs, newest last. */
  readonly #recent = new Map<string, Job>();
  readonly #lockQueue = new LockQueue();

  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    { work, accounts }: { readonly work: WorkQueue; readonly accounts: AccountStore },
    private readonly scope: string,
  ) {
    this.#work = work;
    this.#accounts = accounts;
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    this.#recent.clear();
  }

  /** Starts a job, or replaces the job of this id. */
  put(job: NewJob, now: number, readyAt = now): void {
    this.#drop(job.id);
    // A lease on the replaced job is void for this one.
    this.#work.forget(job.id);
    this.add(job, now, readyAt);
  }

  /** Starts a job with a new id. */
  add(job: NewJob, now: number, readyAt = now): void {
    this.insert(this.draft(job, now));
    this.#work.setDesired(job.id, readyAt);
  }

  /** A job without a row: the transaction must end with `keep` or without the job. */
  draft({ id, work, lock = null, deadline, account = this.#accounts.current() }: NewJob, created: number): Job {
    const counts = { seq: 0, tries: 0, failures: 0, failure: null };
    const held = work.kind === "removal" && work.removal.search ? (work.removal.lock ?? null) : null;
    return { id, work, lock: held ?? lock, deadline: deadline ?? null, account, created, ...counts };
  }

  /** Stores a job of `draft`, under its number of the task. */
  insert({ created, ...job }: Job): Job {
    const terms = job.work.kind === "issue" ? job.work.terms : null;
    const holds = job.work.kind === "removal" && job.lock !== null;
    this.sql.exec(
      `INSERT INTO jobs (id, kind, sealed, token, repeat, lock, locked, deadline, seq, tries, failure, created, account)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      job.id,
      job.work.kind,
      this.#seal(job.id, job.work),
      terms?.token ?? null,
      terms?.repeat ?? null,
      job.lock,
      holds ? 1 : 0,
      job.deadline,
      job.seq,
      job.tries,
      job.failure,
      created,
      job.account,
    );
    this.#remember(job);
    return job;
  }

  /** Whether the job equals its row. */
  isKept(job: Job): boolean {
    return this.#recent.get(job.id) === job;
  }

  /** Stores a change of the job. The lock of a removal ends with its search. @returns the job as stored */
  keep(job: Job, changes: Partial<Pick<Job, "work" | "tries" | "failure">>): Job {
    const changed = { ...job, ...changes, seq: job.seq + 1 };
    const isFree = changed.work.kind === "removal" && !changed.work.removal.search;
    const next = isFree && job.created === undefined ? this.#unlocked(changed) : changed;
    if (job.created !== undefined) return this.insert(next);
    this.sql.exec(
      "UPDATE jobs SET sealed = ?, seq = ?, tries = ?, failure = ? WHERE id = ?",
      this.#seal(job.id, next.work),
      next.seq,
      next.tries,
      next.failure,
      job.id,
    );
    this.#remember(next);
    return next;
  }

  /** Sets the number of failed rounds. */
  setFailures(id: string, failures: number): void {
    this.sql.exec("UPDATE jobs SET failures = ? WHERE id = ?", failures, id);
    this.#recent.delete(id);
  }

  /** Records the reason of the job's current state. */
  setFailure(id: string, failure: string): void {
    this.sql.exec("UPDATE jobs SET failure = ? WHERE id = ?", failure, id);
    this.#recent.delete(id);
  }

  /** Resets the failures and makes the job ready now. A leased job continues undisturbed. */
  retry(id: string, now: number): void {
    this.setFailures(id, 0);
    if (this.#work.find(id)?.leased) return;
    this.#work.setDesired(id, now);
  }

  delete(id: string): void {
    this.#drop(id);
    this.#recent.delete(id);
    this.#work.forget(id);
  }

  /** @throws Sealed, also for a single altered row: see `isUnreadable` */
  find(id: string): Job | null {
    const recent = this.#recent.get(id);
    if (recent) return recent;
    const [row] = this.sql.exec<JobRow>("SELECT * FROM jobs WHERE id = ?", id).toArray();
    return row ? this.#remember(this.#job(row)) : null;
  }

  /** Like `find`, but null for an unreadable row. */
  findReadable(id: string): Job | null {
    try {
      return this.find(id);
    } catch (failure) {
      if (failure instanceof Sealed) return null;
      throw failure;
    }
  }

  /** Whether `failure` concerns a single altered row, and not missing keys. */
  isUnreadable(failure: unknown): boolean {
    return failure instanceof Sealed && this.keys.sealedBecause() === null;
  }

  kindOf(id: string): Work["kind"] | null {
    const recent = this.#recent.get(id);
    if (recent) return recent.work.kind;
    const [row] = this.sql.exec<{ kind: string }>("SELECT kind FROM jobs WHERE id = ?", id).toArray();
    return (row?.kind as Work["kind"] | undefined) ?? null;
  }

  ofRepeat(repeat: string): string | null {
    return this.sql.exec<{ id: string }>("SELECT id FROM jobs WHERE repeat = ?", repeat).toArray()[0]?.id ?? null;
  }

  ofKind(kind: Work["kind"]): Job[] {
    return this.sql
      .exec<JobRow>("SELECT * FROM jobs WHERE kind = ?", kind)
      .toArray()
      .map((row) => this.#job(row));
  }

  /** Ids of the jobs of a kind. */
  idsOfKind(kind: Work["kind"]): string[] {
    return this.sql
      .exec<{ id: string }>("SELECT id FROM jobs WHERE kind = ?", kind)
      .toArray()
      .map(({ id }) => id);
  }

  /** Ids of the jobs of a kind that begin with a prefix. */
  idsUnder(prefix: string, kind: Work["kind"]): string[] {
    return this.sql
      .exec<{ id: string }>(
        "SELECT id FROM jobs WHERE id >= ? AND id < ? AND kind = ? ORDER BY id",
        prefix,
        upperBound(prefix),
        kind,
      )
      .toArray()
      .map(({ id }) => id);
  }

  /** The number of jobs whose ids begin with a prefix, without those that failed before. */
  countUntried(prefix: string): number {
    return this.sql
      .exec<{ n: number }>(
        "SELECT count(*) AS n FROM jobs WHERE id >= ? AND id < ? AND failures = 0",
        prefix,
        upperBound(prefix),
      )
      .one().n;
  }

  issuesOf(token: string): Job[] {
    return this.sql
      .exec<JobRow>("SELECT * FROM jobs WHERE token = ?", token)
      .toArray()
      .map((row) => this.#job(row));
  }

  holder(lock: string): string | null {
    return this.sql.exec<{ id: string }>("SELECT id FROM jobs WHERE lock = ? LIMIT 1", lock).toArray()[0]?.id ?? null;
  }

  /** Takes the job's lock in order of arrival. @returns whether the job holds it now */
  lock({ id, lock }: Job, now: number): boolean {
    if (lock === null) return true;
    if (this.#isBehind(id, lock, now)) return false;
    this.sql.exec("UPDATE jobs SET locked = 1 WHERE id = ?", id);
    return true;
  }

  /** Resolves when the job may take its lock, or after a timeout. */
  async waitInLine(id: string, now: number): Promise<void> {
    const [row] = this.sql.exec<{ lock: string | null }>("SELECT lock FROM jobs WHERE id = ?", id).toArray();
    if (!row || row.lock === null || !this.#isBehind(id, row.lock, now)) return;
    await this.#lockQueue.wait(row.lock, id, LOCK_POLL_MS);
  }

  count(kind: Work["kind"]): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM jobs WHERE kind = ?", kind).one().n;
  }

  /** A request's own job is leased during a pause, too. */
  lease(now: number, only?: string): WorkLease | null {
    return this.#work.lease(1, now, { only, evenPaused: only !== undefined })[0] ?? null;
  }

  /** Moves the end of a lease whose Worker leaves the job. The row counts no attempt, so its back-off does not grow. */
  endLease(lease: WorkLease, at: number): void {
    this.#work.renew(lease, at - LEASE_MS, Number.POSITIVE_INFINITY);
  }

  #job(row: JobRow): Job {
    return {
      id: row.id,
      work: JSON.parse(this.keys.openText(row.sealed, this.#context(row.id))) as Work,
      lock: row.lock,
      deadline: row.deadline,
      seq: row.seq,
      tries: row.tries,
      failures: row.failures,
      failure: row.failure,
      account: row.account,
    };
  }

  /** Whether another job holds the lock, or arrived earlier and still has a polling Worker. */
  #isBehind(id: string, lock: string, now: number): boolean {
    const others = this.sql.exec(
      `SELECT 1 FROM jobs AS other LEFT JOIN ${WORK.rows} ON ${WORK.rows}.id = other.id
       WHERE other.lock = ? AND other.id != ? AND (other.locked = 1 OR (${WORK.isLeasedBeyond}
         AND other.rowid < (SELECT rowid FROM jobs WHERE id = ?))) LIMIT 1`,
      lock,
      id,
      now + LEASE_MS - SKIPPED_AFTER_MS,
      id,
    );
    return others.toArray().length > 0;
  }

  /** Releases the lock of a job that goes on without it. */
  #unlocked<J extends Job>(job: J): J {
    if (job.lock === null) return job;
    this.sql.exec("UPDATE jobs SET lock = NULL, locked = 0 WHERE id = ?", job.id);
    this.#lockQueue.wake(job.lock, this.#inOrder(job.lock));
    return { ...job, lock: null };
  }

  /** Deletes the row, and wakes the next job that waits for its lock. */
  #drop(id: string): void {
    const [row] = this.sql.exec<{ lock: string | null }>("DELETE FROM jobs WHERE id = ? RETURNING lock", id).toArray();
    if (row && row.lock !== null) this.#lockQueue.wake(row.lock, this.#inOrder(row.lock));
  }

  /** The jobs of a lock, oldest first. */
  *#inOrder(lock: string): Generator<string> {
    const rows = this.sql.exec<{ id: string }>("SELECT id FROM jobs WHERE lock = ? ORDER BY rowid", lock);
    for (const { id } of rows) yield id;
  }

  #remember(job: Job): Job {
    this.#recent.delete(job.id);
    this.#recent.set(job.id, job);
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MAX_CACHED && oldest !== undefined) this.#recent.delete(oldest);
    return job;
  }

  #seal(id: string, work: Work): Uint8Array {
    return this.keys.seal(JSON.stringify(work), this.#context(id));
  }

  #context(id: string): string {
    return `${this.scope} job ${id}`;
  }
}
