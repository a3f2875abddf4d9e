import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** A runtime that is there may have it for itself for a moment. */
const READING = { readOnly: true, timeout: 10_000 };

/** Opens a file for reading. A transaction that a kill has cut is rolled back first, as the next start does. */
function opened(path: string): DatabaseSync {
  const database = new DatabaseSync(path, READING);
  try {
    database.prepare("SELECT count(*) FROM sqlite_master").get();
    return database;
  } catch (failure) {
    database.close();
    if (!String(failure).includes("readonly database")) throw failure;
    return new DatabaseSync(path, { ...READING, readOnly: false });
  }
}

type Row = Record<string, string | number | bigint | null>;

interface StoredObject {
  /** `KvStore 689b2591`: class and the beginning of its id. */
  readonly name: string;
  readonly hasAlarm: boolean;
  rows(sql: string): Row[];
  has(table: string): boolean;
}

/** Looks at every object's rows while no runtime has them. */
function withObjects<T>(dataDir: string, look: (object: StoredObject) => T[]): T[] {
  const root = join(dataDir, "v3", "do");
  if (!existsSync(root)) return [];
  return readdirSync(root).flatMap((directory) => {
    const at = (file: string) => join(root, directory, file);
    const alarms = rowsOf(at("metadata.sqlite"), "SELECT * FROM _cf_ALARM");
    const files = readdirSync(join(root, directory)).filter((file) => /^[0-9a-f]{64}\.sqlite$/.test(file));
    return files.flatMap((file) => {
      const id = file.slice(0, 64);
      const database = opened(at(file));
      try {
        const rows = (sql: string) => database.prepare(sql).all() as Row[];
        const tables = new Set(rows("SELECT name FROM sqlite_master WHERE type = 'table'").map(({ name }) => name));
        return look({
          name: `${directory.replace("sallyport-", "")} ${id.slice(0, 8)}`,
          hasAlarm: alarms.some((alarm) => Object.values(alarm).includes(id)),
          rows,
          has: (table) => tables.has(table),
        });
      } finally {
        database.close();
      }
    });
  });
}

function rowsOf(path: string, sql: string): Row[] {
  const database = opened(path);
  try {
    const statement = database.prepare(sql);
    // Times are in nanoseconds.
    statement.setReadBigInts(true);
    return statement.all() as Row[];
  } finally {
    database.close();
  }
}

interface Rows {
  readonly table: string;
  /** Which of them. */
  readonly where: string;
}

/** Rows of pending work: none is left once the service is idle. */
const WAITING: readonly Rows[] = [
  { table: "outbox", where: "1" },
  { table: "work", where: "1" },
  { table: "jobs", where: "1" },
  { table: "purge", where: "1" },
  { table: "volume_operations", where: "state = 'running'" },
  { table: "csi_operations", where: "state IN ('queued', 'running')" },
  { table: "csi_claims", where: "1" },
  { table: "host_volumes", where: "made = 0" },
];

/** Rows for which time has to pass: an alarm is set. */
const TIMED: readonly Rows[] = [
  { table: "outbox", where: "1" },
  { table: "work", where: "1" },
  { table: "leases", where: "state = 'live'" },
  { table: "volume_operations", where: "due IS NOT NULL" },
  { table: "csi_operations", where: "due IS NOT NULL" },
  { table: "csi_claims", where: "due IS NOT NULL" },
];

/** Objects in whose rows something waits although no alarm would ever come back to it. */
export function withoutAlarm(dataDir: string): string[] {
  return withObjects(dataDir, (object) =>
    object.hasAlarm
      ? []
      : counted(object, TIMED).map(
          ({ table, n }) => `${object.name}: ${n} rows of ${table} wait, and there is no alarm`,
        ),
  );
}

/** Pending rows in all objects; empty once everything is settled. */
export function leftOver(dataDir: string): string[] {
  return withObjects(dataDir, (object) =>
    counted(object, WAITING).map(({ table, n }) => `${object.name}: ${n} rows of ${table} still wait`),
  );
}

/** Which of these rows an object has. */
function counted(object: StoredObject, kinds: readonly Rows[]): { table: string; n: number }[] {
  return kinds
    .filter(({ table }) => object.has(table))
    .map(({ table, where }) => ({
      table,
      n: Number(object.rows(`SELECT count(*) AS n FROM ${table} WHERE ${where}`)[0]?.["n"]),
    }))
    .filter(({ n }) => n > 0);
}
