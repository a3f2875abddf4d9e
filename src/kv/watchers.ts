/** Which destinations want to know when a path changes, and when one of its versions next ends by itself. */
export class Watchers {
  readonly #sql: SqlStorage;
  /** Asked after every commit, so kept; undefined when it may have changed. */
  #nextExpiry: number | null | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add(path: string, destination: string, now: number): void {
    this.#sql.exec("INSERT OR IGNORE INTO watchers (path, destination) VALUES (?, ?)", path, destination);
    this.#expect(path, now);
  }

  remove(path: string, destination: string): void {
    this.#sql.exec("DELETE FROM watchers WHERE path = ? AND destination = ?", path, destination);
  }

  /** The destinations to tell of a change that was just made to `path`. */
  of(path: string, now: number): string[] {
    const rows = this.#sql
      .exec<{ destination: string }>("SELECT destination FROM watchers WHERE path = ?", path)
      .toArray();
    if (rows.length > 0) this.#expect(path, now);
    return rows.map((row) => row.destination);
  }

  /** The destination is to be told of the path. @param seq grows with each change */
  tell(path: string, destination: string, seq: number): void {
    this.#sql.exec("UPDATE watchers SET untold = ? WHERE path = ? AND destination = ?", seq, path, destination);
  }

  /** A page of what a destination is still to be told of, oldest first. */
  untold(destination: string, limit: number): string[] {
    const rows = this.#sql
      .exec<{ path: string }>(
        "SELECT path FROM watchers WHERE destination = ? AND untold IS NOT NULL ORDER BY untold LIMIT ?",
        destination,
        limit,
      )
      .toArray();
    return rows.map((row) => row.path);
  }

  /** The destination was told of these paths as they were at `seq`; what has changed since is still to be told. */
  told(destination: string, paths: readonly string[], seq: number): void {
    for (const path of paths) {
      this.#sql.exec(
        "UPDATE watchers SET untold = NULL WHERE path = ? AND destination = ? AND untold <= ?",
        path,
        destination,
        seq,
      );
    }
  }

  paths(): string[] {
    const rows = this.#sql.exec<{ path: string }>("SELECT DISTINCT path FROM watchers").toArray();
    return rows.map((row) => row.path);
  }

  nextExpiry(): number | null {
    if (this.#nextExpiry === undefined) {
      this.#nextExpiry = this.#sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM expiries").one().at;
    }
    return this.#nextExpiry;
  }

  /** Takes out paths of which a version has ended. Inside a transaction that tells their watchers. */
  takeExpired(now: number, limit: number): string[] {
    const rows = this.#sql
      .exec<{ path: string }>("SELECT path FROM expiries WHERE at <= ? ORDER BY at LIMIT ?", now, limit)
      .toArray();
    for (const { path } of rows) this.#sql.exec("DELETE FROM expiries WHERE path = ?", path);
    this.#nextExpiry = undefined;
    return rows.map((row) => row.path);
  }

  #expect(path: string, now: number): void {
    const { at } = this.#sql
      .exec<{ at: number | null }>(
        "SELECT min(deletion) AS at FROM versions WHERE path = ? AND sealed IS NOT NULL AND deletion > ?",
        path,
        now,
      )
      .one();
    if (at === null) this.#sql.exec("DELETE FROM expiries WHERE path = ?", path);
    else {
      this.#sql.exec("INSERT INTO expiries VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET at = excluded.at", path, at);
    }
    this.#nextExpiry = undefined;
  }
}
