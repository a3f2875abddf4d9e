import { backoff } from "../../lib/backoff.ts";
import { earliest } from "../../lib/earliest.ts";
import type { CompletionResult, WorkLease, WorkOutcome } from "./lease.ts";
import { Memo } from "./memo.ts";
import type { Migration } from "./migrations.ts";

export const workMigrations: Migration[] = [
  // The desired state of external objects; `ready_at` is when a row may be claimed.
  `CREATE TABLE work (
      id TEXT PRIMARY KEY, generation INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, ready_at INTEGER NOT NULL,
      lease TEXT) STRICT`,
  // The next ready row, without a scan.
  "CREATE INDEX work_by_ready ON work (ready_at)",
  // A pause that the provider requested: no row is claimed before its end.
  "CREATE TABLE work_pause (id INTEGER PRIMARY KEY CHECK (id = 1), until INTEGER NOT NULL) STRICT",
  // The queue has a capacity: rows that are not queued wait for room and are not claimed.
  `ALTER TABLE work ADD COLUMN queued INTEGER NOT NULL DEFAULT 1;
      DROP INDEX work_by_ready;
      CREATE INDEX work_by_ready ON work (queued, ready_at);
      CREATE INDEX work_leased ON work (ready_at) WHERE lease IS NOT NULL`,
  // The numbers of queued and waiting rows, without counting.
  `CREATE TABLE work_counts (queued INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT;
      INSERT INTO work_counts VALUES (0, 0), (1, (SELECT count(*) FROM work));
      CREATE TRIGGER work_added AFTER INSERT ON work
        BEGIN UPDATE work_counts SET n = n + 1 WHERE queued = NEW.queued; END;
      CREATE TRIGGER work_ended AFTER DELETE ON work
        BEGIN UPDATE work_counts SET n = n - 1 WHERE queued = OLD.queued; END;
      CREATE TRIGGER work_moved AFTER UPDATE OF queued ON work
        BEGIN UPDATE work_counts SET n = n - 1 WHERE queued = OLD.queued;
              UPDATE work_counts SET n = n + 1 WHERE queued = NEW.queued; END`,
  // Rows whose last attempt failed are claimed after the others.
  `ALTER TABLE work ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
      DROP INDEX work_by_ready;
      CREATE INDEX work_by_ready ON work (queued, failed, ready_at)`,
  // An operation costs two rows, and its lease two: counts are in memory, and a leased row is in one index only.
  `CREATE TABLE work_by_id (
        id TEXT PRIMARY KEY, generation INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, ready_at INTEGER NOT NULL,
        lease TEXT, queued INTEGER NOT NULL DEFAULT 1, failed INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
      INSERT INTO work_by_id SELECT id, generation, attempts, ready_at, lease, queued, failed FROM work;
      DROP TABLE work;
      DROP TABLE work_counts;
      ALTER TABLE work_by_id RENAME TO work;
      CREATE INDEX work_by_ready ON work (queued, failed, ready_at) WHERE lease IS NULL;
      CREATE INDEX work_leased ON work (ready_at) WHERE lease IS NOT NULL`,
];

/** Rows of work, for joins of their owner: `id` is that of the owner's row. */
export const WORK = {
  rows: "work",
  /** Whether a row was leased so that its lease ends after a time. */
  isLeasedBeyond: "work.lease IS NOT NULL AND work.ready_at > ?",
} as const;

/** Lifetime of a lease; every provider call must end well before. */
export const LEASE_MS = 60_000;
/** A failed row is preferred once it has waited this long, and at most once in this time. */
const FAILED_EVERY_MS = 30_000;
/** Rows leased before one of many is, while both are ready: a burst of single changes does not stop the many. */
const SINGLES_IN_A_ROW = 3;

/** The order of a row among others that are ready: a single change, one of many at once, one whose last attempt failed. */
export type WorkOrder = "single" | "many" | "failed";

/** Values of the column `failed`. */
const ORDERS = { single: 0, failed: 1, many: 2 } as const satisfies Record<WorkOrder, number>;

interface WorkRow extends Record<string, SqlStorageValue> {
  id: string;
  generation: number;
  attempts: number;
  ready_at: number;
  lease: string | null;
  queued: number;
  failed: number;
}

/** The lease of a row in memory. `generation` is that of the row. */
interface Held {
  readonly lease: string;
  readonly at: number;
  readonly generation: number;
}

interface LeaseOptions {
  readonly only?: string | undefined;
  readonly holder?: string | undefined;
  readonly trial?: boolean;
  readonly evenPaused?: boolean;
}

/** A row as seen by callers. `readyAt`: when it can be leased; for a leased row, when its lease ends. */
export interface WorkView {
  readonly attempts: number;
  readonly readyAt: number;
  readonly leased: boolean;
}

/**
 * Owns the work rows of one object and decides their order (`#inOrder`): one row per resource, for any number of
 * changes. Methods that write are called inside the object's transaction, next to the rows of the resource. Counts,
 * deadlines and leases are memoized: an idle queue costs no reads. A resource costs two rows, its lease two, its end one.
 *
 *   setDesired ──> waiting ──promote──> queued ──lease──> leased ──complete(done | park)──> gone
 *                                         └─────retry, again, lease end────┘
 */
export class WorkQueue {
  /** Changed by each write; forgotten by a rollback only. */
  readonly #counts: Memo<{ queued: number; waiting: number }>;
  /** The earliest `ready_at` of rows without a lease, by the value of `failed`. */
  readonly #firstReady: Memo<readonly (number | null)[]>;
  /** The leases by row. Changed by each write; forgotten by a rollback only. */
  readonly #leases: Memo<Map<string, Held>>;
  readonly #pausedUntil: Memo<number>;
  readonly #failedLast: boolean;
  /** When a failed row was last preferred. Kept in memory; a restart costs one early attempt. */
  #failedAt = Number.NEGATIVE_INFINITY;
  /** Single changes leased since one of many was. */
  #singles = 0;

  /** @param failedLast whether single changes are leased first, and rows with a failed last attempt last */
  constructor(
    private readonly sql: SqlStorage,
    { failedLast = false } = {},
  ) {
    this.#failedLast = failedLast;
    this.#counts = new Memo(() => {
      const { queued, n } = sql
        .exec<{ queued: number; n: number }>("SELECT ifnull(sum(queued), 0) AS queued, count(*) AS n FROM work")
        .one();
      return { queued, waiting: n - queued };
    });
    const first = (order: WorkOrder) =>
      `(SELECT min(ready_at) FROM work WHERE lease IS NULL AND queued = 1 AND failed = ${ORDERS[order]}) AS ${order}`;
    this.#firstReady = new Memo(() => {
      const { single, failed, many } = sql
        .exec<Record<WorkOrder, number | null>>(`SELECT ${first("single")}, ${first("failed")}, ${first("many")}`)
        .one();
      return [single, failed, many];
    });
    this.#leases = new Memo(() => {
      const rows = sql.exec<Held & { id: string } & Record<string, SqlStorageValue>>(
        "SELECT id, lease, ready_at AS at, generation FROM work WHERE lease IS NOT NULL",
      );
      return new Map([...rows].map(({ id, ...held }) => [id, held]));
    });
    this.#pausedUntil = new Memo(
      () => sql.exec<{ until: number }>("SELECT until FROM work_pause").toArray()[0]?.until ?? 0,
    );
  }

  /** Invalidates the memoized values, for example after a rollback. */
  forgetMemos(): void {
    for (const kept of [this.#counts, this.#firstReady, this.#leases, this.#pausedUntil]) kept.forget();
  }

  /**
   * Sets the desired state of `id` (again). A leased row stays leased: two workers never act on one resource at a time,
   * so an older effect cannot overtake a newer one.
   * @param queued false: a new row waits until `promote` finds room for it
   * @param order a single change of one of many comes first; a row whose last attempt failed stays with those
   */
  setDesired(id: string, now: number, queued = true, order: WorkOrder = "single"): void {
    const counts = this.#counts.get();
    const held = this.#leases.get().get(id);
    const at = this.#failedLast ? ORDERS[order] : ORDERS.single;
    const [row] = this.#write(
      [],
      `INSERT INTO work (id, generation, ready_at, queued, failed) VALUES (?, 1, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET generation = generation + 1, attempts = 0,
         failed = CASE WHEN 1 IN (failed, excluded.failed) AND (generation > 1 OR attempts > 0) THEN 1
           ELSE min(failed, excluded.failed) END,
         ready_at = CASE WHEN lease IS NULL THEN excluded.ready_at ELSE ready_at END
       RETURNING generation`,
      id,
      now,
      queued ? 1 : 0,
      at,
    );
    const generation = row?.["generation"] as number;
    if (held) this.#leases.get().set(id, { ...held, generation });
    // The first generation is a new row.
    else if (generation > 1) this.#firstReady.forget();
    else {
      counts[queued ? "queued" : "waiting"] += 1;
      if (queued) this.#firstReady.change((first) => first.with(at, Math.min(first[at] ?? now, now)));
    }
  }

  /** Adds a row that the caller leases at once, in one statement. @param id of no other row @param lease its own */
  addLeased(id: string, now: number, lease = ` ${crypto.randomUUID()}`): WorkLease {
    const held = { lease, at: now + LEASE_MS, generation: 1 };
    this.#count("queued", 1);
    this.sql.exec("INSERT INTO work (id, generation, ready_at, lease) VALUES (?, 1, ?, ?)", id, held.at, lease);
    this.#leases.get().set(id, held);
    return { id, generation: 1, lease, leaseUntil: held.at };
  }

  forget(id: string): void {
    const leases = this.#leases.get();
    const counts = this.#counts.get();
    const [row] = this.#write(
      leases.delete(id) ? [] : [this.#firstReady],
      "DELETE FROM work WHERE id = ? RETURNING queued",
      id,
    );
    if (row) counts[row["queued"] === 1 ? "queued" : "waiting"] -= 1;
  }

  /**
   * Ends the work of `id`. A leased row is only superseded, since its Worker may still act; the owner forgets it later.
   */
  withdraw(id: string, now: number): void {
    const held = this.#leases.get().get(id);
    const generation = (held?.generation ?? 0) + 1;
    if (!held || held.at <= now) this.forget(id);
    else this.#leases.get().set(id, { ...held, generation });
    this.sql.exec("UPDATE work SET generation = ?, attempts = 0 WHERE id = ?", generation, id);
  }

  /** Forgets all rows, with their leases. */
  clear(): void {
    this.sql.exec("DELETE FROM work");
    this.forgetMemos();
  }

  /** Queues up to `room` waiting rows, longest waiting first. @returns how many */
  promote(room: number): number {
    const promoted = Math.min(room, this.waiting());
    if (promoted <= 0) return 0;
    this.#count("waiting", -promoted);
    this.#count("queued", promoted);
    this.#write(
      [this.#firstReady],
      "UPDATE work SET queued = 1 WHERE id IN (SELECT id FROM work WHERE queued = 0 ORDER BY ready_at LIMIT ?)",
      promoted,
    );
    return promoted;
  }

  /**
   * Leases up to `limit` ready rows, longest ready first; with `failedLast`, rows with a failed last attempt after the
   * others.
   * @param only the id of one row
   * @param holder the caller, for `isOnlyHolder`
   * @param trial prefers rows whose last attempt did not fail, for any waiting time
   * @param evenPaused leases also before the end of a pause
   */
  lease(
    limit: number,
    now: number,
    { only, holder, trial = false, evenPaused = false }: LeaseOptions = {},
  ): WorkLease[] {
    if (limit <= 0 || (!evenPaused && this.pausedUntil() > now)) return [];
    const ready =
      only !== undefined
        ? this.sql
            .exec<WorkRow>("SELECT * FROM work WHERE id = ? AND queued = 1 AND ready_at <= ?", only, now)
            .toArray()
        : this.#inOrder(limit, now, trial);
    return ready.map((row) => {
      const lease = `${holder ?? ""} ${crypto.randomUUID()}`;
      const leaseUntil = now + LEASE_MS;
      const leases = this.#leases.get();
      const update = "UPDATE work SET lease = ?, ready_at = ? WHERE id = ?";
      this.#write([this.#firstReady], update, lease, leaseUntil, row.id);
      leases.set(row.id, { lease, at: leaseUntil, generation: row.generation });
      return { id: row.id, generation: row.generation, lease, leaseUntil };
    });
  }

  #inOrder(limit: number, now: number, trial: boolean): WorkRow[] {
    const singles = this.#ready("single", limit, now);
    if (!this.#failedLast) return singles;
    const fresh = this.#interleaved(singles, this.#ready("many", limit, now), limit);
    const failed = this.#ready("failed", limit, now);
    const [first] = failed;
    if (!first) return fresh;
    const overdue = first.ready_at + FAILED_EVERY_MS <= now && this.#failedAt + FAILED_EVERY_MS <= now;
    if (trial || !overdue) return [...fresh, ...failed].slice(0, limit);
    this.#failedAt = now;
    return [first, ...fresh, ...failed.slice(1)].slice(0, limit);
  }

  /** Single changes, and one of many after each few of them. */
  #interleaved(singles: readonly WorkRow[], many: readonly WorkRow[], limit: number): WorkRow[] {
    const rows: WorkRow[] = [];
    for (let [single, other] = [0, 0]; rows.length < limit; ) {
      const [next, oneOfMany] = [singles[single], many[other]];
      const takesMany = oneOfMany && (!next || this.#singles >= SINGLES_IN_A_ROW);
      const row = takesMany ? oneOfMany : next;
      if (!row) break;
      rows.push(row);
      if (takesMany) other++;
      else single++;
      this.#singles = takesMany ? 0 : this.#singles + 1;
    }
    return rows;
  }

  #ready(order: WorkOrder, limit: number, now: number): WorkRow[] {
    const failed = ORDERS[order];
    const first = this.#firstReady.get()[failed] ?? Number.POSITIVE_INFINITY;
    // A leased row is ready when its lease has ended.
    if (Math.min(first, this.firstLeaseEnd() ?? first) > now) return [];
    const part = (where: string) =>
      `SELECT * FROM (SELECT * FROM work WHERE ${where} AND failed = ?1 AND ready_at <= ?2 ORDER BY ready_at LIMIT ?3)`;
    return this.sql
      .exec<WorkRow>(
        `${part("lease IS NULL AND queued = 1")} UNION ALL ${part("lease IS NOT NULL")} ORDER BY ready_at LIMIT ?3`,
        failed,
        now,
        limit,
      )
      .toArray();
  }

  /** Whether a lease can still be completed and its generation is the newest. */
  holds(lease: WorkLease, now: number): boolean {
    const held = this.#leases.get().get(lease.id);
    return held?.lease === lease.lease && held.at > now && held.generation === lease.generation;
  }

  /**
   * Extends a lease from now: work done in steps renews it between steps.
   * @param leastMs a lease with as much time left stays as it is
   */
  renew(lease: WorkLease, now: number, leastMs = LEASE_MS): WorkLease {
    const leases = this.#leases.get();
    const held = leases.get(lease.id);
    if (held?.lease !== lease.lease || held.at - now >= leastMs) return { ...lease, leaseUntil: held?.at ?? now };
    const leaseUntil = now + LEASE_MS;
    this.sql.exec("UPDATE work SET ready_at = ? WHERE id = ?", leaseUntil, lease.id);
    leases.set(lease.id, { ...held, at: leaseUntil });
    return { ...lease, leaseUntil };
  }

  /** Completes a lease. The caller records its own outcome only for "done", "parked" and "retrying". */
  complete(lease: WorkLease, ending: WorkOutcome, now: number): CompletionResult {
    const row = this.#find(lease.id);
    if (!row || row.lease !== lease.lease || row.ready_at <= now) return "stale";
    // A pause requested for all rows does not count as a failure of this one.
    if (ending.kind === "retry" && !ending.all && this.#failedLast) this.#markFailed(lease.id);
    // A pause for all rows also applies when this row was superseded.
    if (ending.kind === "retry" && ending.all) this.pause(now + (ending.afterMs ?? 0));
    if (row.generation !== lease.generation) {
      this.#release(lease.id, 0, now);
      return "superseded";
    }
    if (ending.kind === "again") {
      this.#release(lease.id, row.attempts, now);
      return "retrying";
    }
    if (ending.kind === "retry" && row.attempts + 1 < (ending.attempts ?? Number.POSITIVE_INFINITY)) {
      const again = now + Math.max(ending.afterMs ?? 0, backoff(row.attempts, { cap: ending.capMs }));
      this.#release(lease.id, row.attempts + 1, again);
      return "retrying";
    }
    this.forget(row.id);
    return ending.kind === "done" ? "done" : "parked";
  }

  /** When the next queued row can be leased (ms since 1970), or null when there is none. */
  nextReady(): number | null {
    const first = earliest(...this.#firstReady.get(), this.firstLeaseEnd());
    return first === null ? null : Math.max(first, this.pausedUntil());
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

  /** Number of queued rows, including leased ones. */
  queued(): number {
    return this.#counts.get().queued;
  }

  /** Number of rows that wait for room in the queue. */
  waiting(): number {
    return this.#counts.get().waiting;
  }

  /** Number of current leases. */
  leased(now: number): number {
    return this.#held().filter(({ at }) => at > now).length;
  }

  /** Whether no other caller than `holder` has a lease. */
  isOnlyHolder(holder: string, now: number): boolean {
    return this.#held().every(({ lease, at }) => at <= now || lease.startsWith(`${holder} `));
  }

  /** When the first current lease ends (ms since 1970), or null. */
  firstLeaseEnd(): number | null {
    return earliest(...this.#held().map(({ at }) => at));
  }

  pausedUntil(): number {
    return this.#pausedUntil.get();
  }

  /** No row is leased before `until`; an existing later pause stays. */
  pause(until: number): void {
    this.#write(
      [this.#pausedUntil],
      "INSERT INTO work_pause VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET until = max(until, excluded.until)",
      until,
    );
  }

  /** Ends every pause: its cause may be gone. */
  unpause(): void {
    this.#write([this.#pausedUntil], "DELETE FROM work_pause");
  }

  #held(): Held[] {
    return [...this.#leases.get().values()];
  }

  #find(id: string): WorkRow | null {
    return this.sql.exec<WorkRow>("SELECT * FROM work WHERE id = ?", id).toArray()[0] ?? null;
  }

  #markFailed(id: string): void {
    this.#write([this.#firstReady], "UPDATE work SET failed = 1 WHERE id = ?", id);
  }

  #release(id: string, attempts: number, readyAt: number): void {
    const leases = this.#leases.get();
    const update = "UPDATE work SET lease = NULL, attempts = ?, ready_at = ? WHERE id = ?";
    this.#write([this.#firstReady], update, attempts, readyAt, id);
    leases.delete(id);
  }

  #count(kind: "queued" | "waiting", by: number): void {
    this.#counts.get()[kind] += by;
  }

  /** @param changes memoized values invalidated by the statement */
  #write(changes: readonly Memo<unknown>[], statement: string, ...values: SqlStorageValue[]) {
    const rows = this.sql.exec(statement, ...values).toArray();
    for (const kept of changes) kept.forget();
    return rows;
  }
}
