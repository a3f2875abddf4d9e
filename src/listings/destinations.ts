export interface DestinationListing {
  readonly namespace: string;
  readonly type: string;
  readonly name: string;
}

/** Brings the listing of one destination in line: `exists` or not. Idempotent. */
export async function projectDestination(db: D1Database, key: DestinationListing, exists: boolean): Promise<void> {
  const statement = exists
    ? db.prepare("INSERT OR IGNORE INTO destinations (namespace, type, name) VALUES (?, ?, ?)")
    : db.prepare("DELETE FROM destinations WHERE namespace = ? AND type = ? AND name = ?");
  await statement.bind(key.namespace, key.type, key.name).run();
}

/** All destinations of a namespace, by type and name. Sees every write that was answered before. */
export async function listDestinations(db: D1Database, namespace: string): Promise<{ type: string; name: string }[]> {
  const { results } = await db
    .withSession("first-primary")
    .prepare("SELECT type, name FROM destinations WHERE namespace = ? ORDER BY type, name")
    .bind(namespace)
    .all<{ type: string; name: string }>();
  return results;
}
