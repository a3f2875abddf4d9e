import { migrateAll, recordVersion, type Schema, type Versions } from "../migrations.ts";
import { type Ddl, ddlAt, dropAll, list, quoted, type Value } from "./tables.ts";

/**
 * Shadow tables hold the rows of a restore beside the object's tables until the rows of all objects have arrived. Then
 * they replace the tables. A restore that stops earlier leaves nothing behind.
 */

/** Of one statement (https://developers.cloudflare.com/durable-objects/platform/limits/). */
const MAX_BOUND_VALUES = 100;

const nameOf = (table: string): string => `load:${table}`;

/**
 * Creates the shadow tables with the schema of these versions. Call inside a transaction.
 * @returns the input of `swapShadowTables`
 */
export function createShadowTables(storage: DurableObjectStorage, schema: Schema, versions: Versions): Ddl {
  const ddl = ddlAt(storage, schema, versions);
  dropShadowTables(storage.sql);
  for (const { name, sql } of ddl.tables)
    storage.sql.exec(sql.replace(/^CREATE TABLE\s+("[^"]+"|\w+)/i, `CREATE TABLE ${quoted(nameOf(name))}`));
  return ddl;
}

/**
 * Adds rows. Call inside a transaction.
 * @throws when the table is unknown to the snapshot's versions, or a row violates its schema
 */
export function insertShadowRows(
  sql: SqlStorage,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly Value[])[],
): void {
  const places = `(${columns.map(() => "?").join(", ")})`;
  const atOnce = Math.max(1, Math.floor(MAX_BOUND_VALUES / columns.length));
  for (let at = 0; at < rows.length; at += atOnce) {
    const some = rows.slice(at, at + atOnce);
    const values = some.map(() => places).join(", ");
    sql.exec(`INSERT INTO ${quoted(nameOf(table))} (${list(columns)}) VALUES ${values}`, ...some.flat());
  }
}

/** Drops the shadow tables. Call inside a transaction. */
export function dropShadowTables(sql: SqlStorage): void {
  const names = sql.exec<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'load:*'",
  );
  for (const { name } of names.toArray()) sql.exec(`DROP TABLE ${quoted(name)}`);
}

/** Replaces the tables by the shadow tables and migrates them to the current schema. Call inside a transaction. */
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
  for (const [module, applied] of Object.entries(versions)) recordVersion(sql, module, applied);
  migrateAll(storage, schema);
}
