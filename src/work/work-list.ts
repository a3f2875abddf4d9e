import type { Migration } from "../objects/migrations.ts";
import { backoff } from "./backoff.ts";
import type { Claim, Ending, Settled } from "./task.ts";

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
];

/** A claim is void after this long; every provider call must end well before. */
export const LEASE_MS = 60_000;

interface Row extends Record<string, SqlStorageValue> {
  id: string;
  generation: number;
  attempts: number;
  ready_at: number;
  lease: string | null;
}

/**
 * The work rows of one object: one row a thing, however often it changes. Methods that write are called inside the
 * object's transaction, next to the rows they speak about.
 */
export class WorkList {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /**
   * States that `id` should be made so (again). While a claim is out, the row waits for it: two workers never act on one
   * thing at a time, so an older effect cannot overtake a newer one.
   */
  want(id: string, now: number): void {
    this.#sql.exec(
      `INSERT INTO work (id, generation, ready_at) VALUES (?, 1, ?)
       ON CONFLICT (id) DO UPDATE SET generation = generation + 1, attempts = 0,
         ready_at = CASE WHEN lease IS NULL THEN excluded.ready_at ELSE ready_at END`,
      id,
      now,
    );
  }

  forget(id: string): void {
    this.#sql.exec("DELETE FROM work WHERE id = ?", id);
  }

  /** Leases up to `limit` ready rows, longest ready first. */
  claim(limit: number, now: number, only?: string): Claim[] {
    if (this.#pausedUntil() > now) return [];
    const ready =
      only !== undefined
        ? this.#sql.exec<Row>("SELECT * FROM work WHERE id = ? AND ready_at <= ?", only, now).toArray()
        : this.#sql.exec<Row>("SELECT * FROM work WHERE ready_at <= ? ORDER BY ready_at LIMIT ?", now, limit).toArray();
    return ready.map((row) => {
      const lease = crypto.randomUUID();
      const leaseUntil = now + LEASE_MS;
      this.#sql.exec("UPDATE work SET lease = ?, ready_at = ? WHERE id = ?", lease, leaseUntil, row.id);
      return { id: row.id, generation: row.generation, lease, leaseUntil };
    });
  }

  /** Ends a claim. The caller records its own outcome only for "done", "parked" and "retrying". */
  settle(claim: Claim, ending: Ending, now: number): Settled {
    const [row] = this.#sql.exec<Row>("SELECT * FROM work WHERE id = ?", claim.id).toArray();
    if (!row || row.lease !== claim.lease || row.ready_at <= now) return "stale";
    if (row.generation !== claim.generation) {
      this.#release(claim.id, 0, now);
      return "superseded";
    }
    if (ending.kind === "retry") {
      const again = now + Math.max(ending.afterMs ?? 0, backoff(row.attempts));
      this.#release(claim.id, row.attempts + 1, again);
      if (ending.all) this.#pause(now + (ending.afterMs ?? 0));
      return "retrying";
    }
    this.forget(claim.id);
    return ending.kind === "done" ? "done" : "parked";
  }

  /** When the next row may be claimed (ms since 1970), or null when there is no work. */
  nextReady(): number | null {
    const { at } = this.#sql.exec<{ at: number | null }>("SELECT min(ready_at) AS at FROM work").one();
    return at === null ? null : Math.max(at, this.#pausedUntil());
  }

  /** `readyAt`: when it may be claimed; for one that is claimed, when its lease ends. */
  find(id: string): { attempts: number; readyAt: number; claimed: boolean } | null {
    const [row] = this.#sql.exec<Row>("SELECT * FROM work WHERE id = ?", id).toArray();
    if (!row) return null;
    return {
      attempts: row.attempts,
      readyAt: Math.max(row.ready_at, this.#pausedUntil()),
      claimed: row.lease !== null,
    };
  }

  count(): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM work").one().n;
  }

  #pausedUntil(): number {
    return this.#sql.exec<{ until: number }>("SELECT until FROM work_pause").toArray()[0]?.until ?? 0;
  }

  #pause(until: number): void {
    this.#sql.exec(
      "INSERT INTO work_pause VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET until = max(until, excluded.until)",
      until,
    );
  }

  #release(id: string, attempts: number, readyAt: number): void {
    this.#sql.exec("UPDATE work SET lease = NULL, attempts = ?, ready_at = ? WHERE id = ?", attempts, readyAt, id);
  }
}
