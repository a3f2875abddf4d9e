import { migrateAll, noteVersion, type Schema, type Versions } from "../migrations.ts";
import { type Ddl, ddlAt, dropAll, list, quoted, type Value } from "./tables.ts";

/**
 * The rows of a snapshot lie beside the tables of their object, in tables like those that they came from, until all rows of all
 * objects are there. Only then do they take the tables' places. So whatever stops a restore before that leaves nothing behind.
 */

const nameOf = (table: string): string => `load:${table}`;

/** Makes the tables that a snapshot's rows go to, as they were at these versions. Inside a transaction. @returns what `swap` needs */
export function createShadowTables(storage: DurableObjectStorage, schema: Schema, versions: Versions): Ddl {
  const ddl = ddlAt(storage, schema, versions);
  dropShadowTables(storage.sql);
  for (const { name, sql } of ddl.tables)
    storage.sql.exec(sql.replace(/^CREATE TABLE\s+("[^"]+"|\w+)/i, `CREATE TABLE ${quoted(nameOf(name))}`));
  return ddl;
}

/** Adds rows. Inside a transaction. @throws when the table is not one of the snapshot's versions, or does not take a row */
export function insertShadowRows(
  sql: SqlStorage,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Value[])[],
): void {
  const places = columns.map(() => "?").join(", ");
  for (const row of rows)
    sql.exec(`INSERT INTO ${quoted(nameOf(table))} (${list(columns)}) VALUES (${places})`, ...row);
}

/** Forgets what was staged. Inside a transaction. */
export function dropShadowTables(sql: SqlStorage): void {
  const names = sql.exec<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'load:*'",
  );
  for (const { name } of names.toArray()) sql.exec(`DROP TABLE ${quoted(name)}`);
}

/** Puts what was staged in the tables' places, and brings it to the schema of today. Inside a transaction. */
export function swapShadowTables(
  storage: DurableObjectStorage,
  schema: Schema,
  { ddl, versions, sequences }: { ddl: Ddl; versions: Versions; sequences: Readonly<Record<string, number>> },
): void {
  const { sql } = storage;
  dropAll(sql);
  for (const { name } of ddl.tables) sql.exec(`ALTER TABLE ${quoted(nameOf(name))} RENAME TO ${quoted(name)}`);
  for (const statement of [...ddl.indexes, ...ddl.triggers]) sql.exec(statement);
  for (const [name, seq] of Object.entries(sequences)) {
    sql.exec("DELETE FROM sqlite_sequence WHERE name = ?", name);
    sql.exec("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", name, seq);
  }
  sql.exec("DELETE FROM migrations");
  for (const [module, applied] of Object.entries(versions)) noteVersion(sql, module, applied);
  migrateAll(storage, schema);
}
