import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { eventLog } from "../../src/rpc/stubs.ts";
import { snapshot } from "./backup-world.ts";
import { list, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { closeAll, event, openStream } from "./streams.ts";

clock.moves = true;

it("a snapshot is complete although lists of secrets were abandoned midway", async () => {
  await mountKv();
  for (const path of ["a/b", "a/c", "d"]) await put(`/v1/kv/data/${path}`, { data: {} });
  // A folder's inside is skipped, and a page ends before the list does.
  for (let walks = 0; walks < 20; walks++) {
    expect((await list("/v1/kv/metadata/")).body.data.keys).toEqual(["a/", "d"]);
    expect((await list("/v1/kv/metadata/?limit=1")).body.data.keys).toEqual(["a/"]);
  }
  const warned = vi.spyOn(console, "warn");
  for (let taken = 0; taken < 3; taken++) expect((await snapshot()).length).toBeGreaterThan(1_000);
  expect(JSON.stringify(warned.mock.calls)).not.toContain("cut-left");
});

it("a snapshot is complete although an object is iterating, and ends there later", async () => {
  await put("/v1/namespace/n", {});
  const log = env.EVENT_LOG.getByName("log");
  const walk = await runInDurableObject(log, (_object, { storage }) => {
    const left = storage.sql.exec("SELECT name FROM sqlite_master");
    left.next();
    return left;
  });
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
  expect((await snapshot()).length).toBeGreaterThan(1_000);
  const isCut = () =>
    runInDurableObject(log, (_object, { storage }) =>
      storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM sqlite_master WHERE name GLOB 'cut:*'").one(),
    );
  expect((await isCut()).n).toBeGreaterThan(0);
  // Forgotten, as the collector does it in its own time: what was rolled back has ended it.
  await runInDurableObject(log, () => void expect(() => walk.toArray()).toThrow("ROLLBACK"));
  await runInDurableObject(log, async (object, { storage }) => {
    expect(await storage.getAlarm()).toBeLessThan(Date.now() + 10_000);
    vi.setSystemTime(Date.now() + 10_000);
    await object.alarm?.();
  });
  vi.useRealTimers();
  expect((await isCut()).n).toBe(0);
});

it("a snapshot completes at once although event readers have stopped midway through the backlog", async () => {
  const log = eventLog(env);
  const some = (from: number) =>
    Array.from({ length: 500 }, (_, n) => ({ seq: from + n, events: [event({ Key: `k${(from + n) % 2}` })] }));
  for (let seq = 1; seq < 3_000; seq += 500) await log.append("test", some(seq));
  const readers = await Promise.all(["Job", "Job:k1"].map((topic) => openStream(`?topic=${topic}&index=1`)));
  for (const reader of readers) expect((await reader.nextLine()).Index).toBeLessThan(3);
  const warned = vi.spyOn(console, "warn");
  await snapshot();
  expect(JSON.stringify(warned.mock.calls)).not.toContain("cut-left");
  await closeAll();
});
