import { upperBound } from "../lib/text-range.ts";

/**
 * The table `names` of D1: names of secrets and roles, by the mount that owns them. Written by `NameFeed`, read by the
 * search. A row is found by the last segment of its path in lower case, or by any text in the path.
 */

/** The key of a row among those of its owner. */
export interface NameKey {
  /** The last segment of the path, in lower case. */
  readonly lower: string;
  readonly path: string;
}

/** Longest JSON text of one statement, in characters: D1 accepts 2 MB. */
const MAX_STATEMENT = 500_000;
const DROPPED = 5_000;

const keyOf = (path: string): NameKey => ({ lower: path.slice(path.lastIndexOf("/") + 1).toLowerCase(), path });

/** Changes of names of one owner. Idempotent. @throws when D1 fails */
export async function projectNames(
  db: D1Database,
  owner: string,
  { present, absent }: { readonly present: readonly string[]; readonly absent: readonly string[] },
): Promise<void> {
  const add = db.prepare(
    `INSERT OR IGNORE INTO names (owner, lower, path, folded)
     SELECT ?1, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?2)`,
  );
  const drop = db.prepare(
    `DELETE FROM names WHERE owner = ?1 AND (lower, path) IN
       (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2))`,
  );
  const rows = (paths: readonly string[]) =>
    texts(paths.map((path) => JSON.stringify([keyOf(path).lower, path, path.toLowerCase()])));
  const statements = [
    ...rows(absent).map((text) => drop.bind(owner, text)),
    ...rows(present).map((text) => add.bind(owner, text)),
  ];
  if (statements.length > 0) await db.batch(statements);
}

/** JSON lists of the rows, each short enough for one statement. */
function texts(rows: readonly string[]): string[] {
  const lists: string[][] = [];
  let length = MAX_STATEMENT;
  for (const row of rows) {
    if (length + row.length > MAX_STATEMENT) {
      lists.push([]);
      length = 0;
    }
    lists.at(-1)?.push(row);
    length += row.length;
  }
  return lists.map((list) => `[${list.join(",")}]`);
}

/** Deletes rows of an owner that has no names any more, a part at a time. @returns whether all are deleted. @throws when D1 fails */
export async function dropNames(db: D1Database, owner: string): Promise<boolean> {
  const { meta } = await db
    .prepare(
      `DELETE FROM names WHERE owner = ?1 AND (lower, path) IN
         (SELECT lower, path FROM names WHERE owner = ?1 LIMIT ${DROPPED})`,
    )
    .bind(owner)
    .run();
  return meta.changes < DROPPED;
}

/** One page of the names of an owner, in key order. @throws when D1 fails */
export async function pageOfNames(
  db: D1Database,
  owner: string,
  after: NameKey | null,
  limit: number,
): Promise<NameKey[]> {
  const { results } = await db
    .withSession("first-primary")
    .prepare("SELECT lower, path FROM names WHERE owner = ? AND (lower, path) > (?, ?) ORDER BY lower, path LIMIT ?")
    .bind(owner, after?.lower ?? "", after?.path ?? "", limit)
    .all<{ lower: string; path: string }>();
  return results;
}

/** The next owner of names, in their order; null after the last one. @throws when D1 fails */
export async function nextOwner(db: D1Database, after: string): Promise<string | null> {
  const row = await db
    .withSession("first-primary")
    .prepare("SELECT owner FROM names WHERE owner > ? ORDER BY owner LIMIT 1")
    .bind(after)
    .first<{ owner: string }>();
  return row?.owner ?? null;
}

/** Number of names of all owners. @throws when D1 fails */
export async function countNames(db: D1Database): Promise<number> {
  const row = await db.withSession("first-primary").prepare("SELECT count(*) AS n FROM names").first<{ n: number }>();
  return row?.n ?? 0;
}

/** A part of a search: the names of one owner after a key. */
export interface NameQuestion {
  readonly owner: string;
  readonly after: NameKey | null;
}

export interface NameAnswer {
  readonly found: readonly NameKey[];
  /** The key up to which names were read; null when there are no more. */
  readonly next: NameKey | null;
}

/** Rows that a search reads of one owner at once. */
export const WINDOW = 50_000;

/**
 * Finds names whose paths hold all the words, in lower case: those whose last segment begins with the first word, or the
 * others. Reads at most `WINDOW` rows of each owner.
 * @param limit of found names of each owner
 * @returns an answer for each question, and the number of rows read. @throws when D1 fails
 */
export async function findNames(
  db: D1Database,
  questions: readonly NameQuestion[],
  { words, begins, limit }: { readonly words: readonly string[]; readonly begins: boolean; readonly limit: number },
): Promise<{ answers: NameAnswer[]; rowsRead: number }> {
  const [first = ""] = words;
  const range = begins ? "AND lower >= ?4 AND lower < ?5" : "";
  const rows = `FROM names WHERE owner = ?1 AND (lower, path) > (?2, ?3) ${range} ORDER BY lower, path`;
  const holds = words.map((_, index) => `AND instr(folded, ?${index + 6}) > 0`).join(" ");
  const find = db.prepare(
    `SELECT lower, path FROM (SELECT lower, path, folded ${rows} LIMIT ${WINDOW})
     WHERE (lower >= ?4 AND lower < ?5) = ${begins ? 1 : 0} ${holds} LIMIT ${limit}`,
  );
  const end = db.prepare(`SELECT lower, path ${rows} LIMIT 1 OFFSET ${WINDOW - 1}`);
  const results = await db.withSession("first-primary").batch<{ lower: string; path: string }>(
    questions.flatMap(({ owner, after }) => {
      const key = [owner, after?.lower ?? "", after?.path ?? ""];
      const bounds = [first, upperBound(first)];
      return [find.bind(...key, ...bounds, ...words), end.bind(...key, ...(begins ? bounds : []))];
    }),
  );
  const answers = questions.map((_, index): NameAnswer => {
    const found = results[index * 2]?.results ?? [];
    const last = results[index * 2 + 1]?.results[0] ?? null;
    return { found, next: found.length === limit ? (found.at(-1) ?? null) : last };
  });
  return { answers, rowsRead: results.reduce((sum, { meta }) => sum + (meta.rows_read ?? 0), 0) };
}
