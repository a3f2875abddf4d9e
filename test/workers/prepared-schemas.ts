import * as migrations from "../../src/platform/durable/migrations.ts";

type MigrateAll = typeof migrations.migrateAll & { readonly direct?: typeof migrations.migrateAll };

/** SQL of tables, rows, indexes and triggers, as the first object of a kind in this runtime has made them step by step. */
const prepared = new Map<string, string>();
const numbers = new WeakMap<readonly string[], number>();
let count = 0;

/**
 * Creates the tables of new objects in one step, from the second object of a kind on. A test creates five objects, and
 * the steps that alter tables took most of the time: 4 ms of processor time for `AccessControl`, 1 ms without them.
 * Called once per file.
 */
export function prepareSchemas(): void {
  // The file before this one may have set it.
  const known: MigrateAll = migrations.migrateAll;
  const direct = known.direct ?? known;
  const migrateAll: typeof direct = (storage, schema) => {
    if (userTables(storage.sql).length > 0) return direct(storage, schema);
    const key = keyOf(schema);
    const found = prepared.get(key);
    if (found) return storage.transactionSync(() => void storage.sql.exec(found));
    direct(storage, schema);
    prepared.set(key, scriptOf(storage.sql, schema));
  };
  const value = Object.assign(migrateAll, { direct });
  Object.defineProperty(migrations, "migrateAll", { configurable: true, enumerable: true, get: () => value });
}

/** Creates tables step by step, as outside of these suites. */
export const migrateInSteps: typeof migrations.migrateAll = (storage, schema) => {
  const known: MigrateAll = migrations.migrateAll;
  return (known.direct ?? known)(storage, schema);
};

/** The lists of steps are constants, so that they need no comparison. */
function keyOf(schema: migrations.Schema): string {
  return Object.entries(schema)
    .map(([module, steps]) => {
      if (!numbers.has(steps)) numbers.set(steps, count++);
      return `${module} ${numbers.get(steps)} ${steps.length}`;
    })
    .join();
}

const userTables = (sql: SqlStorage) =>
  sql
    .exec<{ type: string; name: string; sql: string }>(
      "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT GLOB '_cf_*' AND name NOT GLOB 'sqlite_*' ORDER BY rowid",
    )
    .toArray();

function scriptOf(sql: SqlStorage, schema: migrations.Schema): string {
  const all = userTables(sql);
  const tables = all.filter(({ type }) => type === "table");
  const rows = tables.flatMap(({ name }) => [...sql.exec(`SELECT * FROM "${name}"`).raw()].map((row) => [name, row]));
  const inserts = rows.map(([name, row]) => `INSERT INTO "${name}" VALUES (${(row as unknown[]).map(literal).join()})`);
  // Random values differ in each object.
  const statements = Object.values(schema).flatMap((steps) => steps.join(";").split(";"));
  return [
    ...tables.map((table) => table.sql),
    ...inserts,
    ...all.filter(({ type }) => type !== "table").map((other) => other.sql),
    ...statements.filter((statement) => statement.includes("randomblob")),
  ].join(";\n");
}

function literal(value: unknown): string {
  if (value === null) return "NULL";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  throw new Error("rows of new objects hold numbers and texts");
}
