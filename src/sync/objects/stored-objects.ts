import type { StoredObjectView } from "../../contracts/sync-destination.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { texts, upsert } from "../rows.ts";

/**
 * Sealed objects of a destination of kind `stored`, one row each. Methods that write are called inside the object's
 * transaction.
 */
export class StoredObjects {
  /** @param scope the sealing context: the destination's name */
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly scope: string,
  ) {}

  put(name: string, value: string, tags: Readonly<Record<string, string>>, now: number): void {
    const sealed = this.keys.seal(value, this.#context(name));
    upsert(this.sql, "stored_objects", { name, value: sealed, tags: JSON.stringify(tags), updated: now }, "name");
  }

  has(name: string): boolean {
    return this.sql.exec("SELECT 1 FROM stored_objects WHERE name = ?", name).toArray().length > 0;
  }

  remove(name: string): void {
    this.sql.exec("DELETE FROM stored_objects WHERE name = ?", name);
  }

  /** Removes up to `limit` objects. @returns whether more may remain */
  clear(limit: number): boolean {
    const names = texts(this.sql, "SELECT name FROM stored_objects LIMIT ?", limit);
    for (const name of names) this.remove(name);
    return names.length === limit;
  }

  page(after: string, limit: number): StoredObjectView[] {
    return this.sql
      .exec<{ name: string; value: ArrayBuffer; tags: string; updated: number }>(
        "SELECT * FROM stored_objects WHERE name > ? ORDER BY name LIMIT ?",
        after,
        limit,
      )
      .toArray()
      .map((row) => ({
        name: row.name,
        value: this.keys.openText(row.value, this.#context(row.name)),
        tags: JSON.parse(row.tags) as Record<string, string>,
        updated_at: new Date(row.updated).toISOString(),
      }));
  }

  #context(name: string): string {
    return `${this.scope} object ${name}`;
  }
}
