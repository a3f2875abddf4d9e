import { beforeEach, describe, expect, it, vi } from "vitest";
import { listFolder } from "../../src/kv/listing.ts";
import { Secrets } from "../../src/kv/secrets.ts";
import { get, list, mountKv, put } from "./client.ts";
import { inStore } from "./sealing-helpers.ts";

/** Invariant 9: the work of a request does not grow with the number of secrets. Counted in rows and statements, never in time. */

const FOLDERS = 500;
const IN_FOLDER = 100;
const FLAT = 50_000;

let uuid: string;
beforeEach(async () => {
  uuid = (await mountKv()).uuid;
});

/** 100 000 paths: one flat folder, and folders of folders. The rows are as the store writes them, all but their data. */
async function fill(): Promise<void> {
  await inStore(uuid, (_store, state) => {
    const insert = (name: string, rows: number, path: string) =>
      state.storage.sql.exec(
        `WITH RECURSIVE ${name}(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM ${name} WHERE i < ?)
         INSERT INTO secrets SELECT ${path}, 0, 0, 1, 0, 0, 0, 0, NULL, 0, 0 FROM ${name}`,
        rows - 1,
      );
    insert("flat", FLAT, "printf('flat/%06d', i)");
    insert("deep", FOLDERS * IN_FOLDER, `printf('deep/%03d/%03d', i / ${IN_FOLDER}, i % ${IN_FOLDER})`);
    state.storage.sql.exec(
      "INSERT INTO versions (path, version, created, deletion, sealed) SELECT path, 1, 0, NULL, x'00' FROM secrets",
    );
  });
}

/** Runs `work` in the store and counts read rows. */
const counted = (work: (sql: SqlStorage) => unknown) =>
  inStore(uuid, (_store, state) => {
    const cursors: { rowsRead: number }[] = [];
    const sql = {
      exec: (query: string, ...values: unknown[]) => {
        const cursor = state.storage.sql.exec(query, ...values);
        cursors.push(cursor);
        return cursor;
      },
    } as unknown as SqlStorage;
    const result = work(sql);
    return { result, statements: cursors.length, rows: cursors.reduce((sum, cursor) => sum + cursor.rowsRead, 0) };
  });

describe("with 100 000 secrets", () => {
  beforeEach(fill, 60_000);

  it("reading one costs its own rows", async () => {
    for (const work of [
      (sql: SqlStorage) => new Secrets(sql).version("flat/025000", 0),
      (sql: SqlStorage) => new Secrets(sql).version("deep/250/050", 1),
      (sql: SqlStorage) => new Secrets(sql).find("flat/049999"),
      (sql: SqlStorage) => new Secrets(sql).newestLiving("flat/000000", 1),
      (sql: SqlStorage) => new Secrets(sql).summaries("flat/000001"),
    ]) {
      const { result, statements, rows } = await counted(work);
      expect(result).toBeTruthy();
      expect(statements).toBe(1);
      expect(rows).toBeLessThanOrEqual(3);
    }
  });

  it("listing costs a row per name, and one more for a folder of any size", async () => {
    const root = await counted((sql) => listFolder(sql, "", "", 1_000));
    expect(root.result).toEqual({ keys: ["deep/", "flat/"], more: false });
    expect(root.rows).toBeLessThanOrEqual(2 * 2 + 2);

    const folders = await counted((sql) => listFolder(sql, "deep/", "", 1_000));
    expect(folders.result).toMatchObject({ more: false, keys: { length: FOLDERS } });
    expect(folders.rows).toBeLessThanOrEqual(2 * FOLDERS + 2);

    const leaves = await counted((sql) => listFolder(sql, "deep/250/", "", 1_000));
    expect(leaves.result).toMatchObject({ more: false, keys: { length: IN_FOLDER } });
    expect(leaves.rows).toBeLessThanOrEqual(IN_FOLDER + 2);

    const page = await counted((sql) => listFolder(sql, "flat/", "024999", 10));
    expect(page.result).toMatchObject({ more: true, keys: { length: 10, 0: "025000" } });
    expect(page.rows).toBeLessThanOrEqual(12);

    const flat = await counted((sql) => listFolder(sql, "flat/", "", FLAT));
    expect(flat.result).toMatchObject({ more: false, keys: { length: FLAT } });
    // Twice as many rows with each, so that none has to be left halfway.
    expect(flat.statements).toBeLessThanOrEqual(1 + Math.ceil(Math.log2(FLAT)));
  });

  it("no statement of the store scans a table", async () => {
    await inStore(uuid, (store, state) => {
      const seen = vi.spyOn(state.storage.sql, "exec");
      const statements = new Map<string, unknown[]>();
      try {
        store.put("flat/000001", "{}", null, { create: true, update: true });
        store.patch("flat/000001", "{}", null);
        store.read("flat/000001", 0);
        store.deleteVersions("flat/000001", [1]);
        store.undelete("flat/000001", [1]);
        store.destroyVersions("flat/000001", [1]);
        store.metadata("flat/000001");
        store.setMetadata("flat/000001", { max_versions: 1 }, false, { create: true, update: true });
        store.put("flat/000001", "{}", null, { create: true, update: true });
        store.newest("flat/000001");
        store.watch("flat/000001", "d");
        store.deleteMetadata("flat/000001");
        store.unwatch("flat/000001", "d");
        store.list("", "", 10);
        store.list("flat/", "000005", 10);
        for (const [sql, ...values] of seen.mock.calls) statements.set(sql, values);
      } finally {
        seen.mockRestore();
      }
      expect(statements.size).toBeGreaterThan(15);
      for (const [sql, values] of statements) {
        const plan = state.storage.sql
          .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values)
          .toArray()
          .map((row) => row.detail)
          .join("; ");
        expect(plan, sql).not.toMatch(/SCAN (secrets|versions|watchers|v|s)\b/);
      }
    });
  });

  it("lists a folder, a page, and one folder of 50 000 names through the API", async () => {
    expect((await list("/v1/kv/metadata/")).body.data.keys).toEqual(["deep/", "flat/"]);
    expect((await list("/v1/kv/metadata/deep/499/")).body.data.keys).toHaveLength(IN_FOLDER);
    expect((await list("/v1/kv/metadata/flat/?after=049997&limit=5")).body.data.keys).toEqual(["049998", "049999"]);
    const { keys } = (await list("/v1/kv/metadata/flat/")).body.data;
    expect(keys).toHaveLength(FLAT);
    expect(new Set(keys).size).toBe(FLAT);
    expect(keys).toEqual(keys.toSorted());
    await put("/v1/kv/data/flat/025000x", { data: { n: 1 } });
    expect((await get("/v1/kv/data/flat/025000x")).body.data.data).toEqual({ n: 1 });
  });
});

it("a read is one statement, and a write at most six, the alarm's included", async () => {
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await inStore(uuid, (store, state) => {
    const seen = vi.spyOn(state.storage.sql, "exec");
    const statements = (work: () => unknown) => {
      seen.mockClear();
      work();
      return seen.mock.calls.length;
    };
    try {
      expect(statements(() => store.read("a", 0))).toBe(1);
      expect(statements(() => store.put("a", "{}", null, { create: true, update: true }))).toBeLessThanOrEqual(6);
      expect(statements(() => store.put("new", "{}", 0, { create: true, update: true }))).toBeLessThanOrEqual(6);
    } finally {
      seen.mockRestore();
    }
  });
});
