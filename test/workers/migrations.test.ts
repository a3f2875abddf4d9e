import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  isNewerSchema,
  migrateAll,
  NewerSchema,
  recordVersion,
  type Schema,
  versionsOf,
} from "../../src/platform/durable/migrations.ts";
import { SnapshotLock } from "../../src/platform/durable/snapshot/snapshot-lock.ts";
import { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { get, put } from "./client.ts";
import { emptyDeployment } from "./empty-deployment.ts";
import { NAMESPACES } from "./object-namespaces.ts";
import { migrateInSteps } from "./prepared-schemas.ts";

/** Data of an older version opens in this one; data of a newer one is not changed. */

afterEach(emptyDeployment);

type Kind = keyof typeof NAMESPACES;

/** An object of this test only; a fresh stub each time. */
const scratch = (kind: Kind) =>
  NAMESPACES[kind].getByName("in-mem/scratch") as unknown as DurableObjectStub<StoredObject>;
const schemaOf = (kind: Kind) => runInDurableObject(scratch(kind), (object) => object.schema);
const kill = (kind: Kind) =>
  runInDurableObject(scratch(kind), (_object, state) => state.abort("deployed anew")).catch(() => undefined);

const master = (sql: SqlStorage) =>
  sql
    .exec<{ type: string; name: string; sql: string }>(
      "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT GLOB '_cf_*' AND name NOT GLOB 'sqlite_*' ORDER BY type, name",
    )
    .toArray()
    .map((row) => ({ ...row, sql: row.sql.replace(/\s+/g, " ") }));

/** Tables with sealed rows, which a fixture cannot create. */
const SEALED = new Set(["data_keys", "sealed", "facts", "migrations"]);

function dropAll(sql: SqlStorage): void {
  for (const type of ["trigger", "table"])
    for (const { name } of master(sql).filter((each) => each.type === type)) sql.exec(`DROP ${type} "${name}"`);
}

/** Puts an object's tables back to a version, each with one row of plain values. */
function backTo(storage: DurableObjectStorage, schema: Schema, module: string, steps: number): void {
  const { sql } = storage;
  storage.transactionSync(() => {
    dropAll(sql);
    sql.exec("CREATE TABLE migrations (module TEXT PRIMARY KEY, applied INTEGER NOT NULL) STRICT");
    for (const [name, list] of Object.entries(schema)) {
      const applied = name === module ? steps : list.length;
      for (const step of list.slice(0, applied)) sql.exec(step);
      recordVersion(sql, name, applied);
    }
    for (const { name, type } of master(sql)) if (type === "table" && !SEALED.has(name)) fill(sql, name);
  });
}

function fill(sql: SqlStorage, table: string): void {
  const columns = sql
    .exec<{ name: string; type: string }>("SELECT name, type FROM pragma_table_info(?)", table)
    .toArray();
  const values = columns.map(({ type }) =>
    type === "INTEGER" ? 1 : type === "BLOB" ? new ArrayBuffer(1) : type === "REAL" ? 0.5 : "[]",
  );
  sql.exec(
    `INSERT OR IGNORE INTO "${table}" (${columns.map(({ name }) => `"${name}"`).join(", ")}) VALUES (${values.map(() => "?").join(", ")})`,
    ...values,
  );
}

const counts = (sql: SqlStorage) =>
  Object.fromEntries(
    master(sql)
      .filter(({ type, name }) => type === "table" && !SEALED.has(name))
      .map(({ name }) => [name, sql.exec<{ n: number }>(`SELECT count(*) AS n FROM "${name}"`).one().n]),
  );

describe("the tables that these suites create in one step", () => {
  it.each(Object.keys(NAMESPACES) as Kind[])("are those of the steps, with as many rows: %s", async (kind) => {
    await runInDurableObject(scratch(kind), ({ schema }, { storage }) => {
      const tables = [migrateAll, migrateInSteps].map((create) => {
        dropAll(storage.sql);
        create(storage, schema);
        return [master(storage.sql), counts(storage.sql), versionsOf(storage.sql)];
      });
      expect(tables[0]).toEqual(tables[1]);
    });
  });
});

describe("objects of an older version", () => {
  it.each(Object.keys(NAMESPACES) as Kind[])(
    "%s: open at each of the last three steps of each module, with their rows",
    async (kind) => {
      // The rows are due at once, and would be gone before they are counted.
      vi.spyOn(StoredObject.prototype, "alarm").mockResolvedValue();
      const schema = await schemaOf(kind);
      const fresh = await runInDurableObject(scratch(kind), (_object, { storage }) => master(storage.sql));
      let opened = 0;
      for (const [module, steps] of Object.entries(schema)) {
        for (let back = 1; back <= Math.min(3, steps.length); back++) {
          const what = `${module}, ${back} before the last`;
          // Other modules build on the first tables of this one, or this one on theirs: then there never was such a version.
          const before = await runInDurableObject(scratch(kind), (_object, { storage }) => {
            try {
              backTo(storage, schema, module, steps.length - back);
              return counts(storage.sql);
            } catch {
              return null;
            }
          });
          if (!before) continue;
          opened++;
          await kill(kind);
          await runInDurableObject(scratch(kind), (object, { storage }) => {
            expect(
              master(storage.sql).map(({ name }) => name),
              what,
            ).toEqual(fresh.map(({ name }) => name));
            expect(versionsOf(storage.sql), what).toEqual(
              Object.fromEntries(Object.entries(schema).map(([name, { length }]) => [name, length])),
            );
            const after = counts(storage.sql);
            for (const [table, n] of Object.entries(before))
              if (table in after) expect(after[table], `${what}: ${table}`).toBeGreaterThanOrEqual(n);
            expect(() => object.nextDue(), what).not.toThrow();
          });
        }
      }
      expect(opened).toBeGreaterThanOrEqual(Object.keys(schema).length);
    },
  );

  it("open while a snapshot of them is read, which ends", async () => {
    vi.spyOn(StoredObject.prototype, "alarm").mockResolvedValue();
    const tables = (storage: DurableObjectStorage) =>
      master(storage.sql).filter(({ type, name }) => type === "trigger" || name.includes(":"));
    await runInDurableObject(scratch("event-log"), ({ schema }, { storage }) => {
      backTo(storage, schema, "events", (schema["events"]?.length ?? 0) - 1);
      expect(new SnapshotLock(storage, schema).prepare("s", Date.now()).ok).toBe(true);
      expect(tables(storage)).not.toEqual([]);
    });
    await kill("event-log");
    expect(await scratch("event-log").cutPart("s", null)).toMatchObject({ ok: false, reason: "conflict" });
    expect(await runInDurableObject(scratch("event-log"), (_object, { storage }) => tables(storage))).toEqual([]);
    expect((await scratch("event-log").freeze("next")).ok).toBe(true);
  });

  it("from before the first step open as new", async () => {
    await runInDurableObject(scratch("event-log"), (_object, { storage }) => {
      const { sql } = storage;
      for (const table of ["lines", "sources", "accounts", "books", "account_gaps"]) sql.exec(`DROP TABLE ${table}`);
      sql.exec("DELETE FROM migrations WHERE module = 'events'");
    });
    await kill("event-log");
    expect(await runInDurableObject(scratch("event-log"), (object) => object.nextDue())).toBeNull();
  });
});

describe("objects of a newer version", () => {
  const touched = async (change: (sql: SqlStorage) => void) => {
    await put("/v1/sys/policies/acl/p", { policy: 'path "a" {}' });
    const access = () => env.ACCESS_CONTROL.getByName("main");
    await runInDurableObject(access(), (_object, { storage }) => change(storage.sql));
    await runInDurableObject(access(), (_object, state) => state.abort("rolled back")).catch(() => undefined);
  };

  it.each([
    [
      "has a step more",
      (sql: SqlStorage) => recordVersion(sql, "access", 1_000),
      /newer schema: the tables of "access" are at step 1000/,
    ],
    [
      "has a module more",
      (sql: SqlStorage) => recordVersion(sql, "teapots", 1),
      /newer schema: the tables of "teapots" are at step 1 .* knows 0/,
    ],
  ])("that %s is not opened: requests return an error, and nothing changes", async (_what, change, message) => {
    await touched(change);
    for (let tries = 0; tries < 2; tries++) {
      const refused = await get("/v1/sys/policies/acl/p");
      expect([refused.status, refused.body.errors]).toEqual([503, [expect.stringMatching(message)]]);
    }
  });

  it("is refused before any step of another module runs", () =>
    runInDurableObject(scratch("event-log"), (_object, { storage }) => {
      const { sql } = storage;
      recordVersion(sql, "newer", 2);
      const before = master(sql);
      const schema = { outbox: [], mine: ["CREATE TABLE mine (a) "], newer: [] };
      let failure: unknown;
      try {
        migrateAll(storage, { ...schema, events: [] });
      } catch (thrown) {
        failure = thrown;
      }
      expect(failure).toBeInstanceOf(NewerSchema);
      expect(isNewerSchema(failure)).toBe(true);
      expect(master(sql)).toEqual(before);
    }));
});
