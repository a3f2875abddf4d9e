/** As in migrations/0003_births.sql, for deployments whose database has not been migrated yet. */
const TABLE = "CREATE TABLE IF NOT EXISTS births (object TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID";

/**
 * Records the storage that an object began with. @returns the id on record, which is another's if it began with other storage
 * @param fresh false: the storage is older than records, and counts whatever is on record
 * @throws when D1 does
 */
export async function recordBirth(db: D1Database, object: string, id: string, fresh: boolean): Promise<string> {
  const [, , read] = await db.batch<{ id: string }>([
    db.prepare(TABLE),
    db.prepare(`INSERT OR ${fresh ? "IGNORE" : "REPLACE"} INTO births (object, id) VALUES (?, ?)`).bind(object, id),
    db.prepare("SELECT id FROM births WHERE object = ?").bind(object),
  ]);
  return read?.results[0]?.id ?? id;
}
