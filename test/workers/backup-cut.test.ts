import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import {
  beginSnapshot,
  endSnapshot,
  renewSnapshot,
  type SnapshotPage,
  type SnapshotPosition,
  snapshotPage,
} from "../../src/platform/durable/snapshot/object-snapshot.ts";
import { tablesOf, type Value } from "../../src/platform/durable/snapshot/tables.ts";
import { randomFrom } from "../crash/random.ts";

/** Tables of every make that objects have: with and without row numbers, keys of one and of two columns, and triggers of their own. */
const TABLES = [
  "CREATE TABLE numbered (n INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT NOT NULL) STRICT",
  "CREATE TABLE named (name TEXT PRIMARY KEY, v TEXT, b BLOB) STRICT",
  "CREATE TABLE paired (a TEXT NOT NULL, b INTEGER NOT NULL, v TEXT, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID",
  "CREATE TABLE counted (n INTEGER NOT NULL) STRICT",
  "INSERT INTO counted VALUES (0)",
  "CREATE TRIGGER count_up AFTER INSERT ON named BEGIN UPDATE counted SET n = n + 1; END",
  "CREATE TRIGGER count_down AFTER DELETE ON named BEGIN UPDATE counted SET n = n - 1; END",
];
const MINE = ["counted", "named", "numbered", "paired"];

/** A scratch object without pending work. */
const scratch = () => env.EVENT_LOG.getByName(`scratch ${crypto.randomUUID()}`);

const inScratch = (work: (sql: SqlStorage, storage: DurableObjectStorage) => void) =>
  runInDurableObject(scratch(), (_object, { storage }) => {
    for (const statement of TABLES) storage.sql.exec(statement);
    work(storage.sql, storage);
  });

const tables = (sql: SqlStorage) => tablesOf(sql).filter(({ name }) => MINE.includes(name));
const now = (sql: SqlStorage) =>
  Object.fromEntries(
    tables(sql).map(({ name, key }) => [name, [...sql.exec(`SELECT * FROM ${name} ORDER BY ${key}`).raw()]]),
  );

/** One change of any kind. */
function change(sql: SqlStorage, random: () => number): void {
  const pick = (n: number) => Math.floor(random() * n);
  const [name, value] = [`n${pick(40)}`, `v${pick(1_000)}`];
  const pair = [`a${pick(4)}`, pick(8)] as const;
  const changes: (() => unknown)[] = [
    () => sql.exec("INSERT INTO numbered (v) VALUES (?)", value),
    () => sql.exec("UPDATE numbered SET v = ? WHERE n = ?", value, pick(60)),
    () => sql.exec("DELETE FROM numbered WHERE n % 7 = ?", pick(7)),
    () => sql.exec("UPDATE OR IGNORE numbered SET n = n + 100 WHERE n = ?", pick(60)),
    () =>
      sql.exec(
        "INSERT INTO named VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET v = excluded.v",
        name,
        value,
        new Uint8Array([pick(256), 0]).buffer,
      ),
    () => sql.exec("INSERT OR IGNORE INTO named VALUES (?, ?, NULL)", name, value),
    () => sql.exec("DELETE FROM named WHERE name = ?", name),
    () => sql.exec("UPDATE OR IGNORE named SET name = ? WHERE name = ?", `n${pick(40)}`, name),
    () => sql.exec("INSERT OR IGNORE INTO paired VALUES (?, ?, ?)", ...pair, value),
    () => sql.exec("UPDATE paired SET v = ? WHERE a = ?", value, pair[0]),
    () => sql.exec("UPDATE OR IGNORE paired SET b = b + 1 WHERE (a, b) = (?, ?)", ...pair),
    () => sql.exec("DELETE FROM paired WHERE (a, b) = (?, ?)", ...pair),
    () => random() < 0.1 && sql.exec(`DELETE FROM ${["named", "paired"][pick(2)]}`),
  ];
  changes[pick(changes.length)]?.();
}

describe("an object's snapshot", () => {
  it.each([1, 2, 3, 4, 5, 6])("contains every row as of its renewal, for any concurrent changes (seed %i)", (seed) =>
    inScratch((sql, storage) => {
      const random = randomFrom(seed);
      for (let n = 0; n < 150; n++) change(sql, random);
      storage.transactionSync(() => beginSnapshot(sql));
      for (let n = 0; n < 30; n++) change(sql, random);
      // Rows so large that each is a page.
      for (let n = 0; n < 4; n++) sql.exec("INSERT INTO numbered (v) VALUES (?)", "x".repeat(300_000));
      renewSnapshot(storage);
      const before = now(sql);
      for (let n = 0; n < 60; n++) change(sql, random);
      const read: Record<string, Value[][]> = Object.fromEntries(tables(sql).map(({ name }) => [name, []]));
      let parts = 0;
      for (let from: SnapshotPosition | null | undefined; from !== null; parts++) {
        const part: SnapshotPage | null = snapshotPage(sql, from ?? null);
        for (const { table, rows } of part?.some ?? []) read[table]?.push(...rows.map((row) => [...row]));
        from = part?.next ?? null;
        for (let n = 0; n < 20; n++) change(sql, random);
      }
      expect(parts).toBeGreaterThan(2);
      expect(read).toEqual(before);
      const after = now(sql);
      storage.transactionSync(() => endSnapshot(sql));
      expect(now(sql)).toEqual(after);
      expect(sql.exec("SELECT name FROM sqlite_master WHERE name GLOB '*:*'").toArray()).toEqual([]);
    }),
  );

  it("is read in parts of bounded size, each of several tables while they are small", () =>
    inScratch((sql, storage) => {
      for (let n = 0; n < 4; n++) sql.exec("INSERT INTO numbered (v) VALUES (?)", "x".repeat(400_000));
      sql.exec("INSERT INTO named VALUES ('n', ?, NULL)", "x".repeat(400_000));
      storage.transactionSync(() => beginSnapshot(sql));
      const sizes: number[] = [];
      for (let from: SnapshotPosition | null | undefined; from !== null; ) {
        const part: SnapshotPage | null = snapshotPage(sql, from ?? null);
        sizes.push(JSON.stringify(part?.some).length);
        from = part?.next ?? null;
      }
      expect(sizes.length).toBeLessThanOrEqual(3);
      expect(Math.max(...sizes)).toBeLessThan(1_000_000);
      expect(snapshotPage(sql, { table: "unknown", after: null })).toBeNull();
    }));

  it("costs one row per changed row, and nothing for others", () =>
    inScratch((sql, storage) => {
      for (let n = 0; n < 5_000; n++) sql.exec("INSERT INTO numbered (v) VALUES ('v')");
      storage.transactionSync(() => beginSnapshot(sql));
      sql.exec("UPDATE numbered SET v = 'w' WHERE n <= 3");
      sql.exec("UPDATE numbered SET v = 'x' WHERE n <= 3");
      expect(sql.exec(`SELECT count(*) AS n FROM "cut:numbered"`).one()).toEqual({ n: 3 });
    }));
});
