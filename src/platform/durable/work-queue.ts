import { backoff } from "../../lib/backoff.ts";
import type { CompletionResult, WorkLease, WorkOutcome } from "./lease.ts";
import { Memo } from "./memo.ts";
import type { Migration } from "./migrations.ts";

export const workMigrations: Migration[] = [
  {
    because: "what should be made so outside; ready_at = when it may be claimed",
    sql: `CREATE TABLE work (
      id TEXT PRIMARY KEY, generation INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, ready_at INTEGER NOT NULL,
      lease TEXT) STRICT`,
  },
  { because: "find the next thing ready without a scan", sql: "CREATE INDEX work_by_ready ON work (ready_at)" },
  {
    because: "whoever is served asked for a pause: nothing is claimed before then",
    sql: "CREATE TABLE work_pause (id INTEGER PRIMARY KEY CHECK (id = 1), until INTEGER NOT NULL) STRICT",
  },
  {
    because: "a queue can be full: what is not queued waits for room, and is not claimed",
    sql: `ALTER TABLE work ADD COLUMN queued INTEGER NOT NULL DEFAULT 1;
      DROP INDEX work_by_ready;
      CREATE INDEX work_by_ready ON work (queued, ready_at);
      CREATE INDEX work_leased ON work (ready_at) WHERE lease IS NOT NULL`,
  },
  {
    because: "how many rows are queued and how many wait for room, known without counting",
    sql: `CREATE TABLE work_counts (queued INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT;
      INSERT INTO work_counts VALUES (0, 0), (1, (SELECT count(*) FROM work));
      CREATE TRIGGER work_added AFTER INSERT ON work
        BEGIN UPDATE work_counts SET n = n + 1 WHERE queued = NEW.queued; END;
      CREATE TRIGGER work_ended AFTER DELETE ON work
        BEGIN UPDATE work_counts SET n = n - 1 WHERE queued = OLD.queued; END;
      CREATE TRIGGER work_moved AFTER UPDATE OF queued ON work
        BEGIN UPDATE work_counts SET n = n - 1 WHERE queued = OLD.queued;
              UPDATE work_counts SET n = n + 1 WHERE queued = NEW.queued; END`,
  },
  {
    because: "rows whose last attempt failed are claimed behind the others",
    sql: `ALTER TABLE work ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
      DROP INDEX work_by_ready;
      CREATE INDEX work_by_ready ON work (queued, failed, ready_at)`,
  },
];

/** A claim is void after this long; every provider call must end well before. */
export const LEASE_MS = 60_000;
/** Claims that are out are counted so far: nobody hands out as many at a time. */
const MAX_LEASED = 1_000;
/** A row whose last attempt failed is claimed before others once it has waited this long, and at most once in this time. */
const FAILED_EVERY_MS = 30_000;

interface Row extends Record<string, SqlStorageValue> {
  id: string;
  generation: number;
  attempts: number;
  ready_at: number;
  lease: string | null;
  queued: number;
  failed: number;
}

/** A row as others see it. `readyAt`: when it may be claimed; for one that is claimed, when its lease ends. */
export interface WorkView {
  readonly attempts: number;
  readonly readyAt: number;
  readonly leased: boolean;
}

/**
 * The work rows of one object: one row a thing, however often it changes. Methods that write are called inside the
 * object's transaction, next to the rows they speak about.
 */
export class WorkQueue {
  readonly #sql: SqlStorage;
  readonly #counts: Memo<{ readonly queued: number; readonly waiting: number }>;
  /** The earliest `ready_at`: of rows whose last attempt did not fail, and of the others. */
  readonly #firstReady: Memo<readonly (number | null)[]>;
  /** When the leases of claims that are out end, the last first. */
  readonly #leaseEnds: Memo<readonly number[]>;
  readonly #pausedUntil: Memo<number>;
  readonly #failedLast: boolean;
  /** When a failed row was last claimed before others. Lost with the object, which costs one early attempt. */
  #failedAt = Number.NEGATIVE_INFINITY;

  /** @param failedLast rows whose last attempt failed are claimed behind the others */
  constructor(sql: SqlStorage, { failedLast = false } = {}) {
    this.#sql = sql;
    this.#failedLast = failedLast;
    this.#counts = new Memo(() => {
      const [waiting, queued] = sql.exec<{ n: number }>("SELECT n FROM work_counts ORDER BY queued").toArray();
      return { queued: queued?.n ?? 0, waiting: waiting?.n ?? 0 };
    });
    this.#firstReady = new Memo(() =>
      [0, 1].map(
        (failed) =>
          sql
            .exec<{ at: number | null }>("SELECT min(ready_at) AS at FROM work WHERE queued = 1 AND failed = ?", failed)
            .one().at,
      ),
    );
    this.#leaseEnds = new Memo(() =>
      sql
        .exec<{ at: number }>(
          "SELECT ready_at AS at FROM work WHERE lease IS NOT NULL ORDER BY ready_at DESC LIMIT ?",
          MAX_LEASED,
        )
        .toArray()
        .map(({ at }) => at),
    );
    this.#pausedUntil = new Memo(
      () => sql.exec<{ until: number }>("SELECT until FROM work_pause").toArray()[0]?.until ?? 0,
    );
  }

  /** What is kept of the rows in memory may not be true any more. */
  forgetKept(): void {
    for (const kept of [this.#counts, this.#firstReady, this.#leaseEnds, this.#pausedUntil]) kept.forget();
  }

  /**
   * States that `id` should be made so (again). While a claim is out, the row waits for it: two workers never act on one
   * thing at a time, so an older effect cannot overtake a newer one.
   * @param queued false: a row that is new waits until `promote` finds room for it
   * @param failed what was tried for it last has failed; of a row that exists this is known already
   */
  setDesired(id: string, now: number, queued = true, failed = false): void {
    this.#write(
      [this.#counts, this.#firstReady],
      `INSERT INTO work (id, generation, ready_at, queued, failed) VALUES (?, 1, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET generation = generation + 1, attempts = 0, failed = max(failed, excluded.failed),
         ready_at = CASE WHEN lease IS NULL THEN excluded.ready_at ELSE ready_at END`,
      id,
      now,
      queued ? 1 : 0,
      failed && this.#failedLast ? 1 : 0,
    );
  }

  forget(id: string): void {
    this.#write([this.#counts, this.#firstReady, this.#leaseEnds], "DELETE FROM work WHERE id = ?", id);
  }

  /** Queues up to `room` rows that wait for it, longest waiting first. @returns how many */
  promote(room: number): number {
    const before = this.waiting();
    if (room <= 0 || before === 0) return 0;
    this.#write(
      [this.#counts, this.#firstReady],
      "UPDATE work SET queued = 1 WHERE id IN (SELECT id FROM work WHERE queued = 0 ORDER BY ready_at LIMIT ?)",
      room,
    );
    return before - this.waiting();
  }

  /**
   * Leases up to `limit` ready rows, longest ready first; with `failedLast`, rows whose last attempt failed behind the others.
   * @param trial no failed row is preferred, however long it has waited
   */
  lease(limit: number, now: number, only?: string, trial = false): WorkLease[] {
    if (limit <= 0 || this.pausedUntil() > now) return [];
    const ready =
      only !== undefined
        ? this.#sql.exec<Row>("SELECT * FROM work WHERE id = ? AND queued = 1 AND ready_at <= ?", only, now).toArray()
        : this.#inOrder(limit, now, trial);
    return ready.map((row) => {
      const lease = crypto.randomUUID();
      const leaseUntil = now + LEASE_MS;
      this.#move("lease = ?, ready_at = ? WHERE id = ?", lease, leaseUntil, row.id);
      return { id: row.id, generation: row.generation, lease, leaseUntil };
    });
  }

  #inOrder(limit: number, now: number, trial: boolean): Row[] {
    const others = this.#ready(0, limit, now);
    const failed = this.#ready(1, limit, now);
    const [first] = failed;
    if (!first) return others;
    const overdue = first.ready_at + FAILED_EVERY_MS <= now && this.#failedAt + FAILED_EVERY_MS <= now;
    if (trial || !overdue) return [...others, ...failed].slice(0, limit);
    this.#failedAt = now;
    return [first, ...others, ...failed.slice(1)].slice(0, limit);
  }

  #ready(failed: 0 | 1, limit: number, now: number): Row[] {
    const first = this.#firstReady.get()[failed] ?? null;
    if (first === null || first > now) return [];
    return this.#sql
      .exec<Row>(
        "SELECT * FROM work WHERE queued = 1 AND failed = ? AND ready_at <= ? ORDER BY ready_at LIMIT ?",
        failed,
        now,
        limit,
      )
      .toArray();
  }

  /** Whether a claim can still be settled, and its wish is the newest. */
  holds(claim: WorkLease, now: number): boolean {
    const row = this.#find(claim.id);
    return row !== null && row.lease === claim.lease && row.ready_at > now && row.generation === claim.generation;
  }

  /** Makes a claim last anew, counted from now: work that is done in steps keeps it from step to step. */
  renew(claim: WorkLease, now: number): WorkLease {
    const leaseUntil = now + LEASE_MS;
    this.#move("ready_at = ? WHERE id = ? AND lease = ?", leaseUntil, claim.id, claim.lease);
    return { ...claim, leaseUntil };
  }

  /** Ends a claim. The caller records its own outcome only for "done", "parked" and "retrying". */
  complete(claim: WorkLease, ending: WorkOutcome, now: number): CompletionResult {
    const row = this.#find(claim.id);
    if (!row || row.lease !== claim.lease || row.ready_at <= now) return "stale";
    // A pause that all rows are asked for tells nothing of this one.
    if (ending.kind === "retry" && !ending.all && this.#failedLast) this.#markFailed(claim.id);
    // What is asked for all rows holds also when this one is to be done anew.
    if (ending.kind === "retry" && ending.all) this.pause(now + (ending.afterMs ?? 0));
    if (row.generation !== claim.generation) {
      this.#release(claim.id, 0, now);
      return "superseded";
    }
    if (ending.kind === "again") {
      this.#release(claim.id, row.attempts, now);
      return "retrying";
    }
    if (ending.kind === "retry" && row.attempts + 1 < (ending.attempts ?? Number.POSITIVE_INFINITY)) {
      const again = now + Math.max(ending.afterMs ?? 0, backoff(row.attempts));
      this.#release(claim.id, row.attempts + 1, again);
      return "retrying";
    }
    this.forget(claim.id);
    return ending.kind === "done" ? "done" : "parked";
  }

  /** When the next queued row may be claimed (ms since 1970), or null when there is none. */
  nextReady(): number | null {
    const times = this.#firstReady.get().filter((at) => at !== null);
    return times.length === 0 ? null : Math.max(Math.min(...times), this.pausedUntil());
  }

  find(id: string): WorkView | null {
    const row = this.#find(id);
    if (!row) return null;
    return {
      attempts: row.attempts,
      readyAt: Math.max(row.ready_at, this.pausedUntil()),
      leased: row.lease !== null,
    };
  }

  /** How many rows are queued, claimed ones included. */
  queued(): number {
    return this.#counts.get().queued;
  }

  /** How many rows wait for room in the queue. */
  waiting(): number {
    return this.#counts.get().waiting;
  }

  /** How many claims are out. */
  leased(now: number): number {
    return this.#leaseEnds.get().filter((at) => at > now).length;
  }

  /** When the first of the claims that are out ends (ms since 1970), or null. */
  firstLeaseEnd(): number | null {
    return this.#leaseEnds.get().at(-1) ?? null;
  }

  pausedUntil(): number {
    return this.#pausedUntil.get();
  }

  /** Nothing is claimed before `until`; a later time that was asked for already stays. */
  pause(until: number): void {
    this.#write(
      [this.#pausedUntil],
      "INSERT INTO work_pause VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET until = max(until, excluded.until)",
      until,
    );
  }

  /** Whatever pause was asked for is over: its cause may be gone. */
  unpause(): void {
    this.#write([this.#pausedUntil], "DELETE FROM work_pause");
  }

  #find(id: string): Row | null {
    return this.#sql.exec<Row>("SELECT * FROM work WHERE id = ?", id).toArray()[0] ?? null;
  }

  #markFailed(id: string): void {
    this.#write([this.#firstReady], "UPDATE work SET failed = 1 WHERE id = ?", id);
  }

  #release(id: string, attempts: number, readyAt: number): void {
    this.#move("lease = NULL, attempts = ?, ready_at = ? WHERE id = ?", attempts, readyAt, id);
  }

  /** Changes when a row may be claimed, and by whom it is. */
  #move(assignments: string, ...values: SqlStorageValue[]): void {
    this.#write([this.#firstReady, this.#leaseEnds], `UPDATE work SET ${assignments}`, ...values);
  }

  /** @param changes what is kept in memory and may be something else afterwards */
  #write(changes: readonly Memo<unknown>[], statement: string, ...values: SqlStorageValue[]): void {
    this.#sql.exec(statement, ...values);
    for (const kept of changes) kept.forget();
  }
}
