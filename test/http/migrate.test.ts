import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../scripts/migrate.ts";

/* The local database of `npm start` and `npm run serve`. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-migrate-"));
const migrations = join(dir, "migrations");
const databases = { LISTINGS: { id: "00000000-0000-0000-0000-000000000001" } };
const write = (name: string, sql: string) => writeFileSync(join(migrations, name), sql);

beforeAll(() => mkdirSync(migrations));
afterAll(() => rmSync(dir, { recursive: true }));

/** Reads the database while no process has it open. */
function rows(query: string): unknown[] {
  const folder = join(dir, "v3/d1/miniflare-D1DatabaseObject");
  const [file = ""] = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  const database = new DatabaseSync(join(folder, file));
  try {
    return database.prepare(query).all().map(Object.values);
  } finally {
    database.close();
  }
}

it("applies each migration once and as a whole, in order of names, and keeps the rows", async () => {
  write(
    "0002_two.sql",
    "-- A comment; with a semicolon.\nINSERT INTO one VALUES ('a;b');\nCREATE TABLE two (x TEXT);\n",
  );
  write("0001_one.sql", "CREATE TABLE one (x TEXT);");
  await migrate(dir, databases, migrations);
  await migrate(dir, databases, migrations);
  expect(rows("SELECT * FROM one")).toEqual([["a;b"]]);

  write("0003_three.sql", "CREATE TABLE three (x TEXT);\nCREATE TABLE three (x TEXT);");
  await expect(migrate(dir, databases, migrations)).rejects.toThrow(
    `the database in ${dir} could not be migrated: D1_ERROR: table three already exists`,
  );
  const tables = "SELECT name FROM sqlite_master WHERE name IN ('one', 'two', 'three') ORDER BY name";
  expect(rows(tables)).toEqual([["one"], ["two"]]);
  expect(rows("SELECT name FROM d1_migrations ORDER BY id")).toEqual([["0001_one.sql"], ["0002_two.sql"]]);

  write("0003_three.sql", "CREATE TABLE three (x TEXT);");
  await migrate(dir, databases, migrations);
  expect(rows(tables)).toEqual([["one"], ["three"], ["two"]]);
  expect(rows("SELECT * FROM one")).toEqual([["a;b"]]);
});
