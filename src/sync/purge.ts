import type { PurgeRow } from "./schema.ts";

/** A failure that may pass counts as final for a purge after so many attempts. */
export const PURGE_ATTEMPTS = 5;

/**
 * The end of a destination that has associations: each is told to go, page by page, and when the last is gone so is the
 * destination. Methods that write are called inside the object's transaction.
 */
export class Purge {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  find(): PurgeRow | null {
    return this.#sql.exec<PurgeRow>("SELECT * FROM purge").toArray()[0] ?? null;
  }

  /** Whether one runs: then nothing is set or removed. One that failed does not. */
  runs(): boolean {
    return this.find()?.error === null;
  }

  begin(now: number, force: boolean): void {
    this.#sql.exec(
      `INSERT INTO purge (id, initiated, cursor, error, force) VALUES (1, ?, '', NULL, ?)
       ON CONFLICT (id) DO UPDATE SET initiated = excluded.initiated, cursor = '', error = NULL,
         force = max(purge.force, excluded.force)`,
      now,
      force ? 1 : 0,
    );
  }

  /** The associations up to this one have been told; null: all have. */
  told(upTo: string | null): void {
    this.#sql.exec("UPDATE purge SET cursor = ?", upTo);
  }

  failed(error: string): void {
    this.#sql.exec("UPDATE purge SET error = ?, force = 0", error);
  }

  ended(): void {
    this.#sql.exec("DELETE FROM purge");
  }
}
