import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

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
      const database = new DatabaseSync(at(file), { readOnly: true });
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
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const statement = database.prepare(sql);
    // Times are in nanoseconds.
    statement.setReadBigInts(true);
    return statement.all() as Row[];
  } finally {
    database.close();
  }
}

/** Rows that somebody must act on, by table; `pending` says which. */
const WAITING: readonly { readonly table: string; readonly pending: string; readonly of?: string }[] = [
  { table: "outbox", pending: "1" },
  { table: "work", pending: "1" },
  { table: "jobs", pending: "1" },
  { table: "purge", pending: "1" },
  { table: "volume_operations", pending: "state = 'running'" },
  { table: "csi_operations", pending: "state IN ('queued', 'running')" },
  { table: "host_volumes", pending: "made = 0" },
];

/** Objects in whose rows something waits although no alarm would ever come back to it. */
export function withoutAlarm(dataDir: string): string[] {
  return withObjects(dataDir, (object) => {
    const waiting = ["outbox", "work"].filter(
      (table) => object.has(table) && Number(object.rows(`SELECT count(*) AS n FROM ${table}`)[0]?.["n"]) > 0,
    );
    return waiting.length > 0 && !object.hasAlarm
      ? [`${object.name}: ${waiting.join(" and ")} wait without an alarm`]
      : [];
  });
}

/** What still waits in any object: nothing, once all is settled. */
export function leftOver(dataDir: string): string[] {
  return withObjects(dataDir, (object) =>
    WAITING.filter(({ table }) => object.has(table)).flatMap(({ table, pending }) => {
      const n = Number(object.rows(`SELECT count(*) AS n FROM ${table} WHERE ${pending}`)[0]?.["n"]);
      return n === 0 ? [] : [`${object.name}: ${n} rows of ${table} still wait`];
    }),
  );
}
