import { Memo } from "../platform/durable/memo.ts";

/**
 * Watches of sync destinations on paths of a mount, and the scheduled deletions of watched versions. Owned by
 * `KvStore`. Costs one row per path and destination, plus one per path with a scheduled deletion. Methods that write
 * are called inside the object's transaction.
 */
export class Watchers {
  /** The next expiry, read after every commit. */
  readonly #nextExpiry: Memo<number | null>;

  constructor(private readonly sql: SqlStorage) {
    this.#nextExpiry = new Memo(() => sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM expiries").one().at);
  }

  add(path: string, destination: string, now: number): void {
    this.sql.exec("INSERT OR IGNORE INTO watchers (path, destination) VALUES (?, ?)", path, destination);
    this.#schedule(path, now);
  }

  remove(path: string, destination: string): void {
    this.sql.exec("DELETE FROM watchers WHERE path = ? AND destination = ?", path, destination);
  }

  /** The destinations to notify of a change of `path`. */
  of(path: string, now: number): string[] {
    const rows = this.sql
      .exec<{ destination: string }>("SELECT destination FROM watchers WHERE path = ?", path)
      .toArray();
    if (rows.length > 0) this.#schedule(path, now);
    return rows.map((row) => row.destination);
  }

  paths(): string[] {
    const rows = this.sql.exec<{ path: string }>("SELECT DISTINCT path FROM watchers").toArray();
    return rows.map((row) => row.path);
  }

  /** Every destination that watches a path. */
  destinations(): string[] {
    const rows = this.sql.exec<{ destination: string }>("SELECT DISTINCT destination FROM watchers").toArray();
    return rows.map(({ destination }) => destination);
  }

  nextExpiry(): number | null {
    return this.#nextExpiry.get();
  }

  /** Removes and returns paths with a version past its deletion. Called in the transaction that notifies the watchers. */
  takeExpired(now: number, limit: number): string[] {
    const rows = this.sql
      .exec<{ path: string }>("SELECT path FROM expiries WHERE at <= ? ORDER BY at LIMIT ?", now, limit)
      .toArray();
    for (const { path } of rows) this.sql.exec("DELETE FROM expiries WHERE path = ?", path);
    this.#nextExpiry.forget();
    return rows.map((row) => row.path);
  }

  #schedule(path: string, now: number): void {
    const { at } = this.sql
      .exec<{ at: number | null }>(
        "SELECT min(deletion) AS at FROM versions WHERE path = ? AND sealed IS NOT NULL AND deletion > ?",
        path,
        now,
      )
      .one();
    if (at === null) this.sql.exec("DELETE FROM expiries WHERE path = ?", path);
    else {
      this.sql.exec("INSERT INTO expiries VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET at = excluded.at", path, at);
    }
    this.#nextExpiry.forget();
  }
}
