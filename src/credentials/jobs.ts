import type { DataKeys } from "../platform/crypto/data-keys.ts";
import { Sealed } from "../platform/crypto/keyring.ts";
import type { WorkLease } from "../platform/durable/lease.ts";
import { LEASE_MS, type WorkQueue } from "../platform/durable/work-queue.ts";
import type { Work } from "./job.ts";
import { Line } from "./line.ts";

interface Row extends Record<string, SqlStorageValue> {
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
}

/** As many requests as an engine usually serves at a time. */
const MOST_RECENT = 64;
/** A caller asks for its lock again after this; far less than a job may keep others behind it without asking. */
const ASK_AGAIN_MS = 2_000;
/** A waiting job that has not asked for so long has lost its Worker, and is passed over. */
const PASSED_OVER_MS = 5_000;

/** A piece of work under way. */
export interface Job {
  readonly id: string;
  readonly work: Work;
  /** What only one job at a time may change. */
  readonly lock: string | null;
  /** When it is given up, ms since 1970; null: never. */
  readonly deadline: number | null;
  /** Which of its steps is out; every change of what is known counts. */
  readonly seq: number;
  /** How often its next step was tried. */
  readonly tries: number;
  /** How many rounds of it have failed, and why the last did. */
  readonly failures: number;
  readonly failure: string | null;
}

export type NewJob = Pick<Job, "id" | "work"> & { readonly lock?: string | null; readonly deadline?: number };

/**
 * The jobs of one engine, with the row of work that says when each may be claimed. Methods that write are called inside the
 * object's transaction. What is known of a job is sealed: it may hold a new secret.
 */
export class Jobs {
  readonly #sql: SqlStorage;
  readonly #keys: DataKeys;
  readonly #work: WorkQueue;
  readonly #scope: string;
  /** Jobs as stored last, the latest at the end: the next step need not open the row. */
  readonly #recent = new Map<string, Job>();
  readonly #line = new Line();

  constructor(sql: SqlStorage, keys: DataKeys, work: WorkQueue, scope: string) {
    this.#sql = sql;
    this.#keys = keys;
    this.#work = work;
    this.#scope = scope;
  }

  /** What is kept of the rows in memory may not be true any more. */
  forgetMemos(): void {
    this.#recent.clear();
  }

  /** Begins a job, or replaces what the one of this id does. */
  put({ id, work, lock, deadline }: NewJob, now: number, readyAt = now): void {
    const terms = work.kind === "issue" ? work.terms : null;
    this.#drop(id);
    this.#sql.exec(
      "INSERT INTO jobs (id, kind, sealed, token, repeat, lock, deadline, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      id,
      work.kind,
      this.#seal(id, work),
      terms?.token ?? null,
      terms?.repeat ?? null,
      lock ?? null,
      deadline ?? null,
      now,
    );
    this.#remember({
      ...{ id, work, lock: lock ?? null, deadline: deadline ?? null },
      ...{ seq: 0, tries: 0, failures: 0, failure: null },
    });
    // A claim on the job before is void for this one.
    this.#work.forget(id);
    this.#work.setDesired(id, readyAt);
  }

  /** Records what is known by now, and answers the job as it then is. */
  keep(job: Job, changes: Partial<Pick<Job, "work" | "tries" | "failure">>): Job {
    const next = { ...job, ...changes, seq: job.seq + 1 };
    this.#sql.exec(
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

  /** How many rounds of it have failed. */
  setFailures(id: string, failures: number): void {
    this.#sql.exec("UPDATE jobs SET failures = ? WHERE id = ?", failures, id);
    this.#recent.delete(id);
  }

  /** Why the job became what it is. */
  setFailure(id: string, failure: string): void {
    this.#sql.exec("UPDATE jobs SET failure = ? WHERE id = ?", failure, id);
    this.#recent.delete(id);
  }

  /** Tries it again at once, as if it had never failed; one that is being worked on goes on. */
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

  /** @throws Sealed, also for a row that was altered while all others can be read: see `isUnreadable` */
  find(id: string): Job | null {
    const recent = this.#recent.get(id);
    if (recent) return recent;
    const [row] = this.#sql.exec<Row>("SELECT * FROM jobs WHERE id = ?", id).toArray();
    return row ? this.#job(row) : null;
  }

  /** Null also for a row that cannot be read. */
  findReadable(id: string): Job | null {
    try {
      return this.find(id);
    } catch (failure) {
      if (failure instanceof Sealed) return null;
      throw failure;
    }
  }

  /** Whether `failure` says that one row is of no use, rather than that the keys are not there. */
  isUnreadable(failure: unknown): boolean {
    return failure instanceof Sealed && this.#keys.sealedBecause() === null;
  }

  kindOf(id: string): Work["kind"] | null {
    const [row] = this.#sql.exec<{ kind: string }>("SELECT kind FROM jobs WHERE id = ?", id).toArray();
    return (row?.kind as Work["kind"] | undefined) ?? null;
  }

  ofRepeat(repeat: string): string | null {
    return this.#sql.exec<{ id: string }>("SELECT id FROM jobs WHERE repeat = ?", repeat).toArray()[0]?.id ?? null;
  }

  ofKind(kind: Work["kind"]): Job[] {
    return this.#sql
      .exec<Row>("SELECT * FROM jobs WHERE kind = ?", kind)
      .toArray()
      .map((row) => this.#job(row));
  }

  issuesOf(token: string): Job[] {
    return this.#sql
      .exec<Row>("SELECT * FROM jobs WHERE token = ?", token)
      .toArray()
      .map((row) => this.#job(row));
  }

  holder(lock: string): string | null {
    return this.#sql.exec<{ id: string }>("SELECT id FROM jobs WHERE lock = ? LIMIT 1", lock).toArray()[0]?.id ?? null;
  }

  /** Takes the job's lock, first come, first served. @returns whether the job holds it now */
  lock({ id, lock }: Job, now: number): boolean {
    if (lock === null) return true;
    if (this.#isBehind(id, lock, now)) return false;
    this.#sql.exec("UPDATE jobs SET locked = 1 WHERE id = ?", id);
    return true;
  }

  /** Resolves once the job may have its lock, and after a while in any case. */
  async waitInLine(id: string, now: number): Promise<void> {
    const [row] = this.#sql.exec<{ lock: string | null }>("SELECT lock FROM jobs WHERE id = ?", id).toArray();
    if (!row || row.lock === null || !this.#isBehind(id, row.lock, now)) return;
    await this.#line.wait(row.lock, id, ASK_AGAIN_MS);
  }

  count(kind: Work["kind"]): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM jobs WHERE kind = ?", kind).one().n;
  }

  claim(now: number, only?: string): WorkLease | null {
    return this.#work.lease(1, now, only)[0] ?? null;
  }

  #job(row: Row): Job {
    return {
      id: row.id,
      work: JSON.parse(this.#keys.openText(row.sealed, this.#context(row.id))) as Work,
      lock: row.lock,
      deadline: row.deadline,
      seq: row.seq,
      tries: row.tries,
      failures: row.failures,
      failure: row.failure,
    };
  }

  /** Whether another job holds the lock, or came before this one and still has a Worker that asks for it. */
  #isBehind(id: string, lock: string, now: number): boolean {
    const others = this.#sql.exec(
      `SELECT 1 FROM jobs AS other LEFT JOIN work ON work.id = other.id
       WHERE other.lock = ? AND other.id != ? AND (other.locked = 1 OR (work.lease IS NOT NULL AND work.ready_at > ?
         AND other.rowid < (SELECT rowid FROM jobs WHERE id = ?))) LIMIT 1`,
      lock,
      id,
      now + LEASE_MS - PASSED_OVER_MS,
      id,
    );
    return others.toArray().length > 0;
  }

  /** Deletes the row; the line behind a lock that it held moves up. */
  #drop(id: string): void {
    const [row] = this.#sql.exec<{ lock: string | null }>("DELETE FROM jobs WHERE id = ? RETURNING lock", id).toArray();
    if (row && row.lock !== null) this.#line.wake(row.lock, this.#inOrder(row.lock));
  }

  /** The jobs of a lock, the oldest first. */
  *#inOrder(lock: string): Generator<string> {
    const rows = this.#sql.exec<{ id: string }>("SELECT id FROM jobs WHERE lock = ? ORDER BY rowid", lock);
    for (const { id } of rows) yield id;
  }

  #remember(job: Job): void {
    this.#recent.delete(job.id);
    this.#recent.set(job.id, job);
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MOST_RECENT && oldest !== undefined) this.#recent.delete(oldest);
  }

  #seal(id: string, work: Work): Uint8Array {
    return this.#keys.seal(JSON.stringify(work), this.#context(id));
  }

  #context(id: string): string {
    return `${this.#scope} job ${id}`;
  }
}
