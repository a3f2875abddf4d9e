/** As in migrations/0003_births.sql, for deployments with an unmigrated database. */
const TABLE = "CREATE TABLE IF NOT EXISTS births (object TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID";

/** The row with the jurisdiction of the first start, among the rows of objects. */
const JURISDICTION = "jurisdiction";
const INSERT = "INSERT OR IGNORE INTO births (object, id)";
const READ = "SELECT id FROM births WHERE object = ?";

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
    db.prepare(READ).bind(object),
  ]);
  return read?.results[0]?.id ?? id;
}

/**
 * Records the jurisdiction together with the storage id of the first object. It is kept here and not with the other
 * facts of the deployment, because `AccessControl` is another object in another jurisdiction.
 * @param id of the storage that asks; only that on record sets the jurisdiction
 * @returns the jurisdiction on record; a deployment older than this record has none
 * @throws when D1 fails
 */
export async function recordJurisdiction(
  db: D1Database,
  object: string,
  id: string,
  jurisdiction: string,
): Promise<string> {
  const [, read] = await db.batch<{ id: string }>([
    db
      .prepare(`${INSERT} SELECT ?1, ?2 FROM births WHERE object = ?3 AND id = ?4`)
      .bind(JURISDICTION, jurisdiction, object, id),
    db.prepare(READ).bind(JURISDICTION),
  ]);
  return read?.results[0]?.id ?? "none";
}
