import type { Schema, Versions } from "../migrations.ts";

/** A SQLite value. */
export type Value = SqlStorageValue;

/** A table of an object. `key` orders and identifies its rows: its primary key, or `rowid`. */
export interface Table {
  readonly name: string;
  readonly columns: readonly string[];
  readonly key: readonly string[];
}

/** The statements that create a table, its indexes and its triggers. */
export interface Ddl {
  readonly tables: readonly { readonly name: string; readonly sql: string }[];
  readonly indexes: readonly string[];
  readonly triggers: readonly string[];
}

export const quoted = (name: string): string => `"${name}"`;
export const list = (names: readonly string[]): string => names.map(quoted).join(", ");

/**
 * Names with a colon belong to tables of a snapshot or a restore. Names with a leading underscore belong to the
 * platform; local tooling stores an object's name in one of them.
 */
const isOwn = (name: string): boolean => !/^(sqlite_|_)|:/.test(name) && name !== "migrations";

/** The tables of an object that a snapshot includes. */
export function tablesOf(sql: SqlStorage): Table[] {
  return sql
    .exec<{ name: string; wr: number }>(
      "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name",
    )
    .toArray()
    .filter(({ name }) => isOwn(name))
    .map(({ name, wr }) => {
      const columns = sql
        .exec<{ name: string; pk: number }>("SELECT name, pk FROM pragma_table_info(?)", name)
        .toArray();
      const key = columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
      return {
        name,
        columns: columns.map((column) => column.name),
        key: wr === 1 ? key.map((column) => column.name) : ["rowid"],
      };
    });
}

/** Last number issued by each AUTOINCREMENT table; these numbers are never reused. */
export const sequencesOf = (sql: SqlStorage): Record<string, number> =>
  Object.fromEntries(
    sql
      .exec<{ name: string; seq: number }>("SELECT name, seq FROM sqlite_sequence")
      .toArray()
      .filter(({ name }) => isOwn(name))
      .map(({ name, seq }) => [name, seq]),
  );

/** Schemas that this isolate has found, by the statements that make them: objects of one kind have the same. */
const known = new Map<string, Ddl>();

/** The schema of an object's tables when its modules were at these versions. Changes nothing. */
export function ddlAt(storage: DurableObjectStorage, schema: Schema, versions: Versions): Ddl {
  const steps = Object.entries(schema).flatMap(([module, all]) => all.slice(0, versions[module] ?? 0));
  const key = steps.join(";\n");
  const ddl = known.get(key) ?? ddlOfSteps(storage, steps);
  known.set(key, ddl);
  return ddl;
}

function ddlOfSteps(storage: DurableObjectStorage, steps: readonly string[]): Ddl {
  let found: Ddl | undefined;
  try {
    storage.transactionSync(() => {
      dropAll(storage.sql);
      for (const step of steps) storage.sql.exec(step);
      found = ddlOf(storage.sql);
      throw new RolledBack();
    });
  } catch (failure) {
    if (!(failure instanceof RolledBack)) throw failure;
  }
  return found ?? { tables: [], indexes: [], triggers: [] };
}

class RolledBack extends Error {}

/** Drops every table with its indexes and triggers, except `migrations`. Call inside a transaction. */
export function dropAll(sql: SqlStorage): void {
  // Triggers first: dropping a table validates the tables named in other triggers.
  for (const { name } of masterOf(sql, "trigger")) sql.exec(`DROP TRIGGER ${quoted(name)}`);
  for (const { name } of masterOf(sql, "table")) sql.exec(`DROP TABLE ${quoted(name)}`);
}

function ddlOf(sql: SqlStorage): Ddl {
  return {
    tables: masterOf(sql, "table"),
    indexes: masterOf(sql, "index").map((index) => index.sql),
    triggers: masterOf(sql, "trigger").map((trigger) => trigger.sql),
  };
}

/** Indexes without SQL text belong to their tables. */
function masterOf(sql: SqlStorage, type: "table" | "index" | "trigger"): { name: string; sql: string }[] {
  return sql
    .exec<{ name: string; sql: string | null }>(
      "SELECT name, sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL ORDER BY rowid",
      type,
    )
    .toArray()
    .filter(({ name }) => isOwn(name))
    .map((row) => ({ name: row.name, sql: row.sql ?? "" }));
}
