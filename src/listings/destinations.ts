import type { AssociationListing } from "../contracts/sync-destination.ts";
import { pick } from "../lib/pick.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { upperBound } from "../lib/text-range.ts";
import { textOf, warn } from "../platform/observability/log.ts";

export interface DestinationListing {
  readonly namespace: string;
  readonly type: string;
  readonly name: string;
}

/** Reads one row, to learn whether D1 answers. */
export const readDestination = (db: D1Database): Promise<unknown> =>
  db.prepare("SELECT 1 FROM destinations LIMIT 1").all();

/** Updates the listing of one destination: existing, or deleted with all its associations. Idempotent. */
export async function projectDestination(db: D1Database, key: DestinationListing, exists: boolean): Promise<void> {
  const bound = [key.namespace, key.type, key.name];
  if (exists) {
    await db
      .prepare("INSERT OR IGNORE INTO destinations (namespace, type, name) VALUES (?, ?, ?)")
      .bind(...bound)
      .run();
    return;
  }
  const where = "WHERE namespace = ? AND type = ? AND name = ?";
  await db.batch(
    ["destinations", "associations"].map((table) => db.prepare(`DELETE FROM ${table} ${where}`).bind(...bound)),
  );
}

/** Updates the listings of some associations of a destination. Idempotent. */
export async function projectAssociations(
  db: D1Database,
  { namespace, type, name }: DestinationListing,
  changes: readonly (AssociationListing & { readonly exists: boolean })[],
): Promise<void> {
  const add = db.prepare(
    "INSERT OR IGNORE INTO associations (namespace, mount, secret, type, name) VALUES (?, ?, ?, ?, ?)",
  );
  const drop = db.prepare(
    "DELETE FROM associations WHERE namespace = ? AND mount = ? AND secret = ? AND type = ? AND name = ?",
  );
  await db.batch(
    changes.map(({ mount, secret, exists }) => (exists ? add : drop).bind(namespace, mount, secret, type, name)),
  );
}

/** All destinations of a namespace, by type and name. Reads its own writes. */
export function listDestinations(db: D1Database, namespace: string): Promise<Result<{ type: string; name: string }[]>> {
  return read(db, "SELECT type, name FROM destinations WHERE namespace = ? ORDER BY type, name", namespace);
}

/** Destinations of a namespace and of those below it whose types and names hold all the words, in lower case, after one. */
export function findDestinations(
  db: D1Database,
  namespace: string,
  words: readonly string[],
  after: DestinationListing,
  limit: number,
): Promise<Result<DestinationListing[]>> {
  const holds = words.map(() => "AND instr(lower(type || '/' || name), ?) > 0").join(" ");
  return read(
    db,
    `SELECT namespace, type, name FROM destinations
     WHERE namespace >= ? AND namespace < ? AND (namespace, type, name) > (?, ?, ?) ${holds}
     ORDER BY namespace, type, name LIMIT ${limit}`,
    namespace,
    upperBound(namespace),
    after.namespace,
    after.type,
    after.name,
    ...words,
  );
}

/** Number of destinations in all namespaces, and the first of them. @throws when D1 fails */
export async function someDestinations(
  db: D1Database,
  limit: number,
): Promise<{ total: number; some: DestinationListing[] }> {
  const [some, all] = await db.batch([
    db.prepare("SELECT namespace, type, name FROM destinations ORDER BY namespace, type, name LIMIT ?").bind(limit),
    db.prepare("SELECT count(*) AS n FROM destinations"),
  ]);
  const [counted] = (all?.results ?? []) as { n: number }[];
  return { total: counted?.n ?? 0, some: (some?.results ?? []) as DestinationListing[] };
}

/** Secrets of a namespace with associations, by mount and name, with their counts. */
export function listAssociatedSecrets(
  db: D1Database,
  namespace: string,
): Promise<Result<(AssociationListing & { readonly associations: number })[]>> {
  return read(
    db,
    `SELECT mount, secret, count(*) AS associations FROM associations WHERE namespace = ?
     GROUP BY mount, secret ORDER BY mount, secret`,
    namespace,
  );
}

/** The destinations of a secret. */
export function destinationsOf(
  db: D1Database,
  namespace: string,
  { mount, secret }: AssociationListing,
): Promise<Result<{ type: string; name: string }[]>> {
  return read(
    db,
    "SELECT type, name FROM associations WHERE namespace = ? AND mount = ? AND secret = ? ORDER BY type, name",
    namespace,
    mount,
    secret,
  );
}

/** Rows as of the last write. A read failure is transient, not a defect of the service. */
async function read<T>(db: D1Database, sql: string, ...values: string[]): Promise<Result<T[]>> {
  try {
    const { results } = await db
      .withSession("first-primary")
      .prepare(sql)
      .bind(...values)
      .all<T>();
    return ok(results);
  } catch (failure) {
    warn("listing-unread", { because: textOf(failure) });
    return refuse("unavailable", "the lists of destinations and associations cannot be read at the moment; try again");
  }
}

const PAGE = 500;

/** Destinations of all namespaces in key order, by pages. @throws when D1 fails */
export const pagesOfDestinations = (db: D1Database): AsyncGenerator<DestinationListing[]> =>
  pages(db, "destinations", ["namespace", "type", "name"]);

/** Associations of all namespaces in key order, by pages. @throws when D1 fails */
export const pagesOfAssociations = (db: D1Database): AsyncGenerator<(DestinationListing & AssociationListing)[]> =>
  pages(db, "associations", ["namespace", "mount", "secret", "type", "name"]);

async function* pages<T extends object>(
  db: D1Database,
  table: string,
  key: readonly (keyof T & string)[],
): AsyncGenerator<T[]> {
  const columns = key.join(", ");
  for (let after: T | undefined; ; ) {
    const values = after === undefined ? [] : Object.values(pick(after, ...key));
    const behind = after === undefined ? "" : `WHERE (${columns}) > (${key.map(() => "?").join(", ")})`;
    const { results } = await db
      .withSession("first-primary")
      .prepare(`SELECT ${columns} FROM ${table} ${behind} ORDER BY ${columns} LIMIT ${PAGE}`)
      .bind(...values)
      .all<T>();
    after = results.at(-1);
    if (after === undefined) return;
    yield results;
  }
}
