/** As in migrations/0003_births.sql, for deployments with an unmigrated database. */
const TABLE = "CREATE TABLE IF NOT EXISTS births (object TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID";

/**
 * Records the storage id of an object on first use.
 * @returns the id on record; it differs if the object started with other storage
 * @param fresh false: the storage is older than records, and is accepted in any case
 * @throws when D1 fails
 */
export async function recordBirth(db: D1Database, object: string, id: string, fresh: boolean): Promise<string> {
  const [, , read] = await db.batch<{ id: string }>([
    db.prepare(TABLE),
    db.prepare(`INSERT OR ${fresh ? "IGNORE" : "REPLACE"} INTO births (object, id) VALUES (?, ?)`).bind(object, id),
    db.prepare("SELECT id FROM births WHERE object = ?").bind(object),
  ]);
  return read?.results[0]?.id ?? id;
}
