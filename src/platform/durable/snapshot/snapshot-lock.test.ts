import { describe, expect, it } from "vitest";
import { memoryStorage } from "../../../../test/memory-storage.ts";
import { migrateAll, type Schema, versionsOf } from "../migrations.ts";
import { QUIESCE_MS } from "./frozen.ts";
import { SNAPSHOT_TIMEOUT_MS, SnapshotLock } from "./snapshot-lock.ts";

const numbers = "CREATE TABLE numbers (n INTEGER PRIMARY KEY AUTOINCREMENT) STRICT";
const names = "CREATE TABLE names (name TEXT PRIMARY KEY) STRICT";

function object(schema: Schema) {
  const storage = memoryStorage();
  migrateAll(storage, schema);
  return { storage, lock: new SnapshotLock(storage, schema) };
}

describe("a snapshot", () => {
  it("shows the rows at the moment of the freeze, and not those of its preparation", () => {
    const { storage, lock } = object({ all: [numbers, names] });
    const rows = () => {
      const page = lock.page("s", null);
      return page.ok ? page.value.some.flatMap((part) => part.rows) : page;
    };
    storage.sql.exec("INSERT INTO names VALUES ('before')");
    expect(lock.prepare("s", 0).ok).toBe(true);
    storage.sql.exec("INSERT INTO names VALUES ('between')");
    expect(rows(), "prepared").toEqual([["before"]]);
    expect(lock.freeze("s", 1_000)).toMatchObject({ ok: true, value: { versions: { all: 2 } } });
    expect(lock.thaw("s")).toBe(true);
    storage.sql.exec("INSERT INTO names VALUES ('later')");
    storage.sql.exec("DELETE FROM names WHERE name = 'before'");
    expect(rows(), "frozen").toEqual([["before"], ["between"]]);
  });

  it("freezes without a write where nothing has changed since its preparation", () => {
    const { storage, lock } = object({ all: [numbers, names] });
    const written = () => storage.sql.exec<{ n: number }>("SELECT total_changes() AS n").one().n;
    lock.prepare("s", 0);
    const before = written();
    expect(lock.freeze("s", 1_000).ok).toBe(true);
    expect([written() - before, lock.isFrozen(1_001), lock.isFrozen(1_000 + QUIESCE_MS)]).toEqual([0, true, false]);
    expect([lock.nextDue(1_001), lock.nextDue(1_000 + QUIESCE_MS)]).toEqual([1_000 + QUIESCE_MS, SNAPSHOT_TIMEOUT_MS]);
    expect([lock.thaw("s"), lock.isFrozen(1_001), written() - before]).toEqual([true, false, 0]);
  });

  it("is frozen in memory only, and a thaw after a restart says so", () => {
    const schema = { all: [numbers, names] };
    const { storage, lock } = object(schema);
    lock.prepare("s", 0);
    lock.freeze("s", 1_000);
    const restarted = new SnapshotLock(storage, schema);
    expect([restarted.isFrozen(1_001), restarted.thaw("s")]).toEqual([false, false]);
    expect(restarted.page("s", null).ok).toBe(true);
    lock.freeze("s", 2_000);
    expect([lock.thaw("another"), lock.isFrozen(2_001)]).toEqual([false, true]);
  });
});

describe("a restore", () => {
  it("migrates the tables of modules that the snapshot does not name", () => {
    const { storage, lock } = object({ old: [numbers], recent: [names] });
    expect(lock.lockForRestore("r", {}).ok).toBe(true);
    expect(lock.beginStaging("r", { versions: { old: 1 }, sequences: { numbers: 7 } }).ok).toBe(true);
    expect(lock.stage("r", "numbers", ["n"], [[5]]).ok).toBe(true);
    expect(lock.swap("r")).toEqual({ ok: true, value: null });
    expect(versionsOf(storage.sql)).toEqual({ old: 1, recent: 1 });
    expect(storage.sql.exec("SELECT * FROM names").toArray()).toEqual([]);
    storage.sql.exec("INSERT INTO numbers DEFAULT VALUES");
    expect(storage.sql.exec<{ n: number }>("SELECT max(n) AS n FROM numbers").one().n).toBe(8);
  });
});
