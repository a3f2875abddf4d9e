import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SyncDestination } from "../../src/worker.ts";
import { cut } from "../crash/crash-point.ts";
import { holderOf, path } from "./access.ts";
import { listed } from "./backup-world.ts";
import { list, mountKv, put, send } from "./client.ts";
import { makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";

const rebuild = (options?: Parameters<typeof send>[3]) => send("POST", "/v1/sys/listings/rebuild", undefined, options);
const run = (sql: string, ...values: string[]) =>
  env.LISTINGS.prepare(sql)
    .bind(...values)
    .run();
let before: unknown;

afterEach(() => void vi.restoreAllMocks());
beforeEach(async () => {
  await mountKv();
  for (let n = 0; n < 5; n++) await write(`s${n}`, { v: n });
  await put("/v1/sys/namespaces/team", {});
  const team = { headers: { "X-Orch-Namespace": "team" } };
  await put("/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } }, team);
  await put("/v1/kv/data/x", { data: { v: 1 } }, team);
  for (const name of ["a", "b", "none"]) await makeDestination("in-mem", name);
  await put("/sys/sync/destinations/in-mem/a", {}, team);
  await put("/sys/sync/destinations/in-mem/a/associations/set", { mount: "kv", secret_name: "x" }, team);
  for (const [at, secret] of [
    ["a", "s0"],
    ["a", "s1"],
    ["b", "s1"],
    ["b", "s4"],
  ])
    await setAssociation(`in-mem/${at}`, `${secret}`);
  before = await listed();
});

describe("rebuilding the lists", () => {
  it("restores lost lists", async () => {
    await env.LISTINGS.batch(
      ["destinations", "associations"].map((table) => env.LISTINGS.prepare(`DELETE FROM ${table}`)),
    );
    expect((await list("/sys/sync/destinations")).status).toBe(404);
    const rebuilt = await rebuild();
    expect([rebuilt.status, rebuilt.body.data]).toEqual([
      200,
      { destinations: 4, listed_destinations: 4, listed_associations: 5, listed_names: 6, behind: 0 },
    ]);
    expect(await listed()).toEqual(before);
  });

  it("removes stale entries", async () => {
    await run(
      "INSERT INTO destinations VALUES ('', 'in-mem', 'ghost'), ('', 'teapot', 'x'), ('odd', 'in-mem', 'a'), ('no/where/', 'in-mem', 'a')",
    );
    await run(
      "INSERT INTO associations VALUES ('', 'kv/', 's2', 'in-mem', 'a'), ('', 'kv/', 's2', 'in-mem', 'ghost'), ('', 'old/', 'x', 'in-mem', 'other')",
    );
    await run("INSERT INTO associations VALUES ('odd', 'kv/', 's0', 'in-mem', 'a'), ('', '', '', '', '')");
    await run("DELETE FROM associations WHERE secret = 's4'");
    await run("DELETE FROM destinations WHERE name = 'none'");
    expect((await rebuild()).status).toBe(200);
    expect(await listed()).toEqual(before);
    expect((await rebuild()).body.data.behind).toBe(0);
    expect(await listed()).toEqual(before);
  });

  it("never shows less than before, and includes concurrent changes", async () => {
    const relist = SyncDestination.prototype.relist;
    const seen: number[] = [];
    vi.spyOn(SyncDestination.prototype, "relist").mockImplementation(async function (this: SyncDestination, ...given) {
      const done = await relist.apply(this, given);
      const [destinations = [], associations = []] = await listed();
      seen.push(destinations.length + associations.length);
      return done;
    });
    const [rebuilt] = await Promise.all([
      rebuild(),
      setAssociation("in-mem/a", "s3"),
      removeAssociation("in-mem/b", "s4"),
      makeDestination("in-mem", "new"),
    ]);
    expect(rebuilt.status).toBe(200);
    expect(Math.min(...seen)).toBeGreaterThanOrEqual(8);
    await vi.waitFor(async () => {
      const [destinations = [], associations = []] = await listed();
      expect(destinations.map(({ name }) => name)).toEqual(["a", "b", "new", "none", "a"]);
      expect(associations.map(({ name, secret }) => `${name} ${secret}`).sort()).toEqual([
        "a s0",
        "a s1",
        "a s3",
        "a x",
        "b s1",
      ]);
    });
  });

  it("is complete when it is repeated after a crash", async () => {
    await run("DELETE FROM associations");
    await run("INSERT INTO destinations VALUES ('', 'in-mem', 'ghost')");
    for (const when of ["before", "after"] as const) {
      const happened = cut(["SyncDestination", "relist", when]);
      expect([200, 503]).toContain((await rebuild()).status);
      expect(happened()).toBe(true);
    }
    vi.restoreAllMocks();
    expect((await rebuild()).status).toBe(200);
    expect(await listed()).toEqual(before);
  });

  it("handles more associations than one page, with few pending rows", async () => {
    const stub = env.SYNC_DESTINATION.getByName("in-mem/b");
    await runInDurableObject(stub, (_object, { storage: { sql } }) => {
      for (let n = 0; n < 1_200; n++)
        sql.exec(
          `INSERT INTO associations (id, mount_uuid, mount_accessor, mount_path, secret_name, wish, intent, seed, status, updated)
           SELECT 'many' || ?1, mount_uuid, mount_accessor, mount_path, 'many' || ?1, wish, intent, seed, status, updated
           FROM associations WHERE id NOT LIKE 'many%' LIMIT 1`,
          String(n).padStart(5, "0"),
        );
    });
    expect((await rebuild()).body.data).toEqual({
      destinations: 4,
      listed_destinations: 4,
      listed_associations: 1_205,
      listed_names: 6,
      behind: 0,
    });
    expect((await listed())[1]).toHaveLength(1_205);
  });

  it("continues what an earlier one has begun", async () => {
    await run("DELETE FROM associations");
    const stub = env.SYNC_DESTINATION.getByName("in-mem/b");
    const isComplete = await runInDurableObject(stub, (object, { storage: { sql } }) => {
      const { id } = sql.exec<{ id: string }>("SELECT id FROM associations ORDER BY id LIMIT 1").one();
      object["commit"](() => object["outbox"].enlist("relist", "", id));
      return object.relist(null, Date.now() + 10_000);
    });
    expect(isComplete).toBe(true);
    expect((await listed())[1]).toHaveLength(1);
    await rebuild();
    expect(await listed()).toEqual(before);
  });

  it("requires sudo", async () => {
    const reader = await holderOf(path("sys/listings/rebuild", "update"));
    expect((await rebuild({ token: reader.client_token })).status).toBe(403);
    expect((await rebuild({ headers: { "X-Orch-Namespace": "team" } })).status).toBe(400);
  });

  it("fails while D1 is down, without an effect", async () => {
    vi.spyOn(env.LISTINGS, "withSession").mockImplementation(() => {
      throw new Error("down");
    });
    expect((await rebuild()).status).toBeGreaterThanOrEqual(500);
    vi.restoreAllMocks();
    expect(await listed()).toEqual(before);
  });
});
