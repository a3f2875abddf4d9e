import { list, quoted, type Table, tablesOf, type Value } from "./tables.ts";

/**
 * Copy-on-write snapshot of one object: its rows stay readable as of one moment while the object continues to change.
 * Triggers copy the previous state of a row (or its absence) into a second table before its first change. Creation
 * costs nothing; each changed row then costs one more row.
 */

const PART_ROWS = 2_000;
const PART_BYTES = 512 * 1024;

/** Rows of one table, ordered by its key. */
interface SnapshotRows {
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
}

/** A position between two rows: `after` is the key of the previous row, null before the first. */
export interface SnapshotPosition {
  readonly table: string;
  readonly after: readonly Value[] | null;
}

/** Rows of consecutive tables. `next`: the position of the next page; null on the last. */
export interface SnapshotPage {
  readonly some: readonly SnapshotRows[];
  readonly next: SnapshotPosition | null;
}

const copyOf = (table: Pick<Table, "name">): string => `cut:${table.name}`;
const keyNames = (table: Table): string[] => table.key.map((_, position) => `key:${position}`);

/** Starts a snapshot. Call inside a transaction. */
export function beginSnapshot(sql: SqlStorage): void {
  for (const table of tablesOf(sql)) {
    const keys = keyNames(table);
    const copy = quoted(copyOf(table));
    sql.exec(
      `CREATE TABLE ${copy} (${list(keys)}, "was:here" INTEGER NOT NULL, ${list(table.columns)}, PRIMARY KEY (${list(keys)})) WITHOUT ROWID`,
    );
    const of = (row: "OLD" | "NEW", columns: readonly string[]) =>
      columns.map((name) => `${row}.${quoted(name)}`).join(", ");
    const unlessKnown = (row: "OLD" | "NEW") =>
      `WHERE NOT EXISTS (SELECT 1 FROM ${copy} WHERE (${list(keys)}) = (${of(row, table.key)}))`;
    const was = `INSERT INTO ${copy} SELECT ${of("OLD", table.key)}, 1, ${of("OLD", table.columns)} ${unlessKnown("OLD")}`;
    const wasNot = `INSERT INTO ${copy} (${list(keys)}, "was:here") SELECT ${of("NEW", table.key)}, 0 ${unlessKnown("NEW")}`;
    const triggers = [
      ["BEFORE UPDATE", was],
      ["BEFORE DELETE", was],
      ["AFTER INSERT", wasNot],
      ["AFTER UPDATE", wasNot],
    ] as const;
    for (const [when, statement] of triggers)
      sql.exec(
        `CREATE TRIGGER ${quoted(`${copyOf(table)}:${when}`)} ${when} ON ${quoted(table.name)} BEGIN ${statement}; END`,
      );
  }
}

/** Moves an existing snapshot to this moment. Two statements that write nothing, where nothing has changed. */
export function renewSnapshot(storage: DurableObjectStorage): void {
  const { sql } = storage;
  const copies = copiesOf(sql, "table");
  if (copies.length === 0) return;
  const questions = copies.map((name) => `EXISTS (SELECT 1 FROM ${quoted(name)})`);
  const [found = []] = sql.exec(`SELECT ${questions.join(", ")}`).raw<SqlStorageValue[]>();
  const changed = copies.filter((_name, at) => found[at] === 1);
  if (changed.length === 0) return;
  storage.transactionSync(() => {
    for (const name of changed) sql.exec(`DELETE FROM ${quoted(name)}`);
  });
}

/** Ends a snapshot, if one exists. Call inside a transaction. */
export function endSnapshot(sql: SqlStorage): void {
  for (const type of ["trigger", "table"] as const)
    for (const name of copiesOf(sql, type)) sql.exec(`DROP ${type} ${quoted(name)}`);
}

const copiesOf = (sql: SqlStorage, type: "table" | "trigger"): string[] =>
  sql
    .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = ? AND name GLOB 'cut:*' ORDER BY name", type)
    .toArray()
    .map(({ name }) => name);

/**
 * Rows as of the snapshot, table by table, up to the size of one answer; empty tables are left out.
 * @returns null for an unknown position
 */
export function snapshotPage(sql: SqlStorage, from: SnapshotPosition | null): SnapshotPage | null {
  const tables = tablesOf(sql);
  const first = from ? tables.findIndex(({ name }) => name === from.table) : 0;
  if (first < 0) return null;
  const some: SnapshotRows[] = [];
  let [rows, bytes] = [PART_ROWS, PART_BYTES];
  for (const [at, table] of tables.slice(first).entries()) {
    const after = at === 0 && from ? from.after : null;
    if (rows <= 0 || bytes <= 0) return { some, next: { table: table.name, after } };
    const page = tablePage(sql, table, after, { rows, bytes });
    if (page.rows.length > 0) some.push({ table: table.name, columns: table.columns, rows: page.rows });
    if (page.next) return { some, next: { table: table.name, after: page.next } };
    rows -= page.rows.length;
    bytes -= page.bytes;
  }
  return { some, next: null };
}

/** A page of a table as of the snapshot. `next`: the key behind which the next page begins; null on the last. */
function tablePage(
  sql: SqlStorage,
  table: Table,
  after: readonly Value[] | null,
  most: { readonly rows: number; readonly bytes: number },
): { rows: Value[][]; bytes: number; next: Value[] | null } {
  const { columns, key } = table;
  // Sizes first: a row may have 2 MB, and a partially read cursor would lock the table.
  const sizes = sql
    .exec<{ size: number }>(...selectSnapshot(table, after, `${columns.map(sizeOf).join(" + ")} AS size`, most.rows))
    .toArray();
  if (sizes.length === 0) return { rows: [], bytes: 0, next: null };
  let bytes = 0;
  const within = sizes.findIndex(({ size }) => {
    bytes += size;
    return bytes > most.bytes;
  });
  const limit = within < 0 ? most.rows : within + 1;
  const found = [...sql.exec(...selectSnapshot(table, after, list(columns), limit)).raw<Value[]>()];
  return {
    rows: found.map((row) => row.slice(key.length)),
    bytes,
    next: found.length < limit ? null : (found.at(-1)?.slice(0, key.length) ?? null),
  };
}

/** Selects a table as of the snapshot, ordered by its key: the key, and the columns `what`. */
function selectSnapshot(
  table: Table,
  after: readonly Value[] | null,
  what: string,
  limit: number,
): [statement: string, ...values: Value[]] {
  const { name, key } = table;
  const keys = keyNames(table);
  const copy = quoted(copyOf(table));
  const here = key.map((column) => `here.${quoted(column)}`).join(", ");
  const behind = (names: string) => (after === null ? "" : `AND (${names}) > (${key.map(() => "?").join(", ")})`);
  const end = (names: string) => `${behind(names)} ORDER BY ${names} LIMIT ${limit}`;
  const statement = `SELECT * FROM (SELECT ${here}, ${what} FROM ${quoted(name)} AS here
      WHERE NOT EXISTS (SELECT 1 FROM ${copy} WHERE (${list(keys)}) = (${here})) ${end(here)})
    UNION ALL
    SELECT * FROM (SELECT ${list(keys)}, ${what} FROM ${copy} WHERE "was:here" = 1 ${end(list(keys))})
    ORDER BY ${key.map((_, position) => position + 1).join(", ")} LIMIT ${limit}`;
  return [statement, ...(after ?? []), ...(after ?? [])];
}

const sizeOf = (column: string): string => `ifnull(octet_length(${quoted(column)}), 0)`;
