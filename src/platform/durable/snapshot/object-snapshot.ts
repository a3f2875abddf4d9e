import { list, quoted, type Table, tablesOf, type Value } from "./tables.ts";

/**
 * A cut keeps the rows of an object readable as they were at one moment while the object goes on. Triggers put what a row was
 * before its first change since then, or that it was not there, into a second table; so a cut costs nothing to make, and
 * then a row for each row that changes.
 */

const PART_ROWS = 2_000;
const PART_BYTES = 512 * 1024;

/** Rows of one table, in the order of its key. */
export interface SnapshotRows {
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
}

/** A place between two rows: `after` is the key of the one in front, null before the first. */
export interface SnapshotPosition {
  readonly table: string;
  readonly after: readonly Value[] | null;
}

/** Rows of one table after the other. `next`: where the next part begins; null on the last. */
export interface SnapshotPage {
  readonly some: readonly SnapshotRows[];
  readonly next: SnapshotPosition | null;
}

const copyOf = (table: Pick<Table, "name">): string => `cut:${table.name}`;
const keyNames = (table: Table): string[] => table.key.map((_, position) => `key:${position}`);

/** Begins a cut. Inside a transaction. */
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

/** Has a cut be of this moment instead. Inside a transaction. */
export function renewSnapshot(sql: SqlStorage): void {
  for (const table of tablesOf(sql)) sql.exec(`DELETE FROM ${quoted(copyOf(table))}`);
}

/** Ends a cut, if there is one. Inside a transaction. */
export function endSnapshot(sql: SqlStorage): void {
  for (const type of ["trigger", "table"]) {
    const names = sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = ? AND name GLOB 'cut:*'", type)
      .toArray();
    for (const { name } of names) sql.exec(`DROP ${type} ${quoted(name)}`);
  }
}

/**
 * Rows as they were, table by table, as many as one answer should hold; tables without any are left out.
 * @returns null when there is no such place
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

/** A page of a table as it was. `next`: the key behind which the next page begins; null on the last. */
function tablePage(
  sql: SqlStorage,
  table: Table,
  after: readonly Value[] | null,
  most: { readonly rows: number; readonly bytes: number },
): { rows: Value[][]; bytes: number; next: Value[] | null } {
  const { columns, key } = table;
  // Sizes first: a row may have 2 MB, and a cursor that is left halfway would lock the table.
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

/** Selects of a table as it was, in order of its key: the key, and `what`. */
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
