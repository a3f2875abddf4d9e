import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { KvStore, SyncDestination } from "../../src/worker.ts";
import { amount } from "../support/long.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself } from "./clock-and-alarms.ts";
import { evictObject } from "./evict-all.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { association, eventually, makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";
import { destination, numbered, pause, resume, writeMany } from "./sync-limits.ts";

clock.moves = true;

const AT = "cloud-a-sm/d";
const PATH = `/sys/sync/destinations/${AT}`;
let mount = { accessor: "", uuid: "" };
const ALL = () => ({ mounts: [mount.uuid], destinations: [AT, "in-mem/m"] });
beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
  await makeDestination("cloud-a-sm", "d");
});

const state = async () => (await get(PATH)).body.data;
const refuse = { fault: "error", type: "AccessDeniedException", operation: "DeleteSecret", count: 1_000 } as const;
const down = { fault: "error", type: "InternalServiceError", status: 500, count: 100_000 } as const;

/** Sets some secrets, all at once. */
async function setAll(at: string, names: readonly string[]): Promise<void> {
  const secrets = await writeMany(mount, names);
  for (let page = 0; page < secrets.length; page += 50) {
    await Promise.all(secrets.slice(page, page + 50).map((secret) => destination(at).set(secret)));
  }
}

/** Adds associations like the first one until there are `count`. Setting each takes most of the time of a test. */
async function fillTo(at: string, count: number): Promise<void> {
  await runInDurableObject(destination(at), (_object: SyncDestination, { storage: { sql } }) => {
    const rows = sql.exec("SELECT * FROM associations").toArray();
    const [row] = rows;
    if (!row) throw new Error("there is no association to copy");
    const columns = Object.keys(row);
    const insert = `INSERT INTO associations (${columns}) VALUES (${columns.map(() => "?")})`;
    for (const secret_name of numbered("copy", count - rows.length)) {
      sql.exec(insert, ...Object.values({ ...row, id: `${row["mount_accessor"]}/${secret_name}`, secret_name }));
    }
  });
}

/** No row or list mentions the deleted destination. */
async function expectNoTrace(at: string): Promise<void> {
  expect((await get(`/sys/sync/destinations/${at}`)).status).toBe(404);
  expect((await get(`/sys/sync/destinations/${at}/associations`)).status).toBe(404);
  const { results } = await env.LISTINGS.prepare(
    "SELECT * FROM (SELECT type, name FROM destinations UNION ALL SELECT type, name FROM associations) WHERE type || '/' || name = ?",
  )
    .bind(at)
    .all();
  expect(results).toEqual([]);
  await runInDurableObject(env.KV_STORE.getByName(mount.uuid), (_kv: KvStore, { storage }) => {
    expect(storage.sql.exec("SELECT * FROM watchers WHERE destination = ?", at).toArray()).toEqual([]);
  });
  await runInDurableObject(destination(at), (object: SyncDestination, { storage }) => {
    for (const table of [
      "destination",
      "associations",
      "copies",
      "work",
      "stored_objects",
      "purge",
      "scan",
      "outbox",
    ]) {
      expect(storage.sql.exec(`SELECT * FROM ${table}`).toArray(), table).toEqual([]);
    }
    expect(object.nextDue()).toBeNull();
  });
  expect(await env.SYNC_CONTROL.getByName("main").pending()).toBe(0);
}

describe("a purge", () => {
  // Proves: B.state.delete.purge-order, B.state.delete.purged
  it("continues after the response, shows its start, refuses changes, and leaves no rows", async () => {
    await setAll(AT, numbered("s", 3));
    for (const name of numbered("s", 3)) await setAssociation(AT, name);
    await eventually(async () => expect(await cloudA.secrets()).toHaveLength(3));
    await cloudA.fault({ fault: "delay", ms: 1_200, operation: "DeleteSecret", count: 3 });
    const before = Date.now();
    expect((await del(`${PATH}?purge=true`)).status).toBe(204);
    const { purge_initiated_at, purge_error } = await state();
    expect(Date.parse(purge_initiated_at)).toBeGreaterThanOrEqual(before);
    expect(purge_error).toBe("");
    for (const act of [setAssociation, removeAssociation]) {
      const refused = await act(AT, "s0000");
      expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("purge in progress")]);
    }
    expect((await del(PATH)).status, "without purge it is still in use").toBe(400);
    expect((await del(`${PATH}?purge=true`)).status).toBe(204);
    expect((await state()).purge_initiated_at, "asked for again it goes on as it is").toBe(purge_initiated_at);
    await eventually(() => expectNoTrace(AT));
    expect(await cloudA.secrets()).toEqual([]);
    await eventually(async () => expect((await list("/sys/sync/destinations")).status).toBe(404));
    await eventually(async () => expect((await list("/sys/sync/associations")).body.data?.keys ?? []).toEqual([]));
    expect((await del(`${PATH}?purge=true`)).status).toBe(204);
    // Writes are no longer reported.
    await write("s0000", { v: "later" });
    expect(await cloudA.secrets()).toEqual([]);
  });

  // Proves: B.state.delete.purge-order
  it("that fails shows its error, accepts changes again, and may be repeated", async () => {
    for (const name of ["one", "two"]) {
      await write(name, { v: 1 });
      await setAssociation(AT, name);
    }
    await cloudA.fault(refuse);
    await del(`${PATH}?purge=true`);
    await eventually(async () => expect((await state()).purge_error).not.toBe(""));
    const { purge_error, purge_initiated_at } = await state();
    expect(purge_error).toMatch(/^2 secrets could not be removed; the first is .*one: /);
    expect(purge_initiated_at).toMatch(/Z$/);
    expect(await association(AT, "one")).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "permission_denied",
    });
    await cloudA.clearFaults();
    expect((await setAssociation(AT, "one")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    expect((await removeAssociation(AT, "two")).body.data.sync_operation_counters).toEqual({ UNSYNCED: 1 });
    await del(`${PATH}?purge=true`);
    await eventually(() => expectNoTrace(AT));
    expect(await cloudA.secrets()).toEqual([]);
  });

  it("fails soon while the provider is down, with any number of untried secrets", async () => {
    await setAll(AT, numbered("s", 60));
    await eventually(async () => expect(await cloudA.secrets()).toHaveLength(60));
    await cloudA.fault(down);
    const before = (await cloudA.requests()).length;
    await del(`${PATH}?purge=true`);
    await byItself(ALL(), async () => expect((await state()).purge_error).toContain("secrets could not be removed"));
    expect((await cloudA.requests()).length).toBeLessThan(before + 40);
    await cloudA.clearFaults();
    await del(`${PATH}?purge=true`);
    await byItself(ALL(), () => expectNoTrace(AT));
    expect(await cloudA.secrets()).toEqual([]);
  }, 300_000);

  it("of very many secrets proceeds page by page", async () => {
    await makeDestination("in-mem", "m");
    await pause();
    // Pages hold 500.
    await setAll("in-mem/m", numbered("s", amount(510, 1_010)));
    await resume();
    await del("/sys/sync/destinations/in-mem/m?purge=true");
    await eventually(() => expectNoTrace("in-mem/m"), 200_000);
  }, 600_000);

  it.each(["evicted", "killed"])(
    "completes although the destination is %s repeatedly",
    async (how) => {
      await makeDestination("in-mem", "m");
      await pause();
      await setAll("in-mem/m", numbered("s", amount(120, 510)));
      await resume();
      await del("/sys/sync/destinations/in-mem/m?purge=true");
      for (let round = 0; round < 12; round++) {
        await scheduler.wait(amount(20, 60));
        const at = destination("in-mem/m");
        if (how === "evicted") await evictObject(at).catch(() => undefined);
        else await runInDurableObject(at, (_object, { abort }) => abort("killed")).catch(() => undefined);
      }
      await byItself(ALL(), () => expectNoTrace("in-mem/m"), { rounds: 300 });
    },
    240_000,
  );

  const steps = [
    [SyncDestination, ["delete"]],
    [SyncDestination, ["poll"]],
    // One lane is delivered by the first, several by the second: which, depends on when they arrive.
    [KvStore, ["unwatch", "watchMany"]],
  ] as const;
  it.each(
    steps.flatMap(([owner, methods]) =>
      (["before", "after"] as const).map((when) => [owner.name, methods.join(), when, owner, methods] as const),
    ),
  )(
    "completes although %s crashes at %s (%s)",
    async (_name, _methods, when, owner, methods) => {
      for (const name of ["one", "two"]) {
        await write(name, { v: 1 });
        await setAssociation(AT, name);
      }
      const prototype = owner.prototype as unknown as Record<string, (...parameters: unknown[]) => unknown>;
      let happened = false;
      for (const method of methods) {
        const original = prototype[method] as (...parameters: unknown[]) => unknown;
        vi.spyOn(prototype, method).mockImplementation(async function (this: unknown, ...parameters) {
          if (happened) return original.apply(this, parameters);
          happened = true;
          const { ctx } = this as { ctx: DurableObjectState };
          if (when === "after") {
            await original.apply(this, parameters);
            await ctx.storage.sync();
          }
          ctx.abort("killed");
          throw new Error("killed");
        });
      }
      // Without an answer it is asked for again.
      const answer = await del(`${PATH}?purge=true`).catch(() => null);
      if (answer?.status !== 204) expect((await del(`${PATH}?purge=true`)).status).toBe(204);
      await byItself(ALL(), () => expectNoTrace(AT));
      expect(happened).toBe(true);
      expect(await cloudA.secrets()).toEqual([]);
    },
    120_000,
  );
});

describe("a forced deletion", () => {
  beforeEach(async () => {
    for (const name of ["one", "two"]) {
      await write(name, { v: 1 });
      await setAssociation(AT, name);
    }
  });

  it("without purge is complete at once and leaves remote objects", async () => {
    expect((await del(`${PATH}?force_delete=true`)).status).toBe(204);
    expect((await get(PATH)).status).toBe(404);
    await eventually(() => expectNoTrace(AT));
    expect(await cloudA.secrets()).toHaveLength(2);
  });

  it("with purge removes remote objects where possible, and completes even if that fails", async () => {
    await cloudA.fault({ ...refuse, count: 1 });
    expect((await del(`${PATH}?purge=true&force_delete=true`)).status).toBe(204);
    await byItself(ALL(), () => expectNoTrace(AT));
    expect(await cloudA.secrets()).toHaveLength(1);
  });

  it("completes a purge that makes no progress", async () => {
    await cloudA.fault(down);
    await del(`${PATH}?purge=true`);
    expect((await get(PATH)).status).toBe(200);
    await del(`${PATH}?force_delete=true`);
    expect((await get(PATH)).status).toBe(404);
    await eventually(() => expectNoTrace(AT));
  });
});

describe("a destination with the name of a deleted one", () => {
  it("returns 409 while the old one is being cleared, and is created afterwards", async () => {
    await makeDestination("in-mem", "m", { custom_tags: { old: "1" } });
    await pause();
    await setAll("in-mem/m", numbered("s", 20));
    await fillTo("in-mem/m", 1_010);
    expect((await del("/sys/sync/destinations/in-mem/m")).body.errors[0]).toContain("1000 or more associations");
    // More than a page is left to clear.
    await runInDurableObject(destination("in-mem/m"), (_object: SyncDestination, { storage: { sql } }) => {
      sql.exec("DELETE FROM associations WHERE secret_name GLOB 'copy*' AND secret_name > 'copy0500'");
    });
    const alarm = vi.spyOn(SyncDestination.prototype, "alarm").mockResolvedValue(undefined);
    expect((await del("/sys/sync/destinations/in-mem/m?force_delete=true")).status).toBe(204);
    const early = await put("/sys/sync/destinations/in-mem/m", {});
    expect([early.status, early.body.errors[0]]).toEqual([409, expect.stringContaining("still being deleted")]);
    alarm.mockRestore();
    await runInDurableObject(destination("in-mem/m"), (object: SyncDestination) => object.alarm());
    await resume();
    await eventually(async () => expect((await put("/sys/sync/destinations/in-mem/m", {})).status).toBe(200), 200_000);
    expect((await get("/sys/sync/destinations/in-mem/m")).body.data.options.custom_tags).toEqual({});
    expect((await get("/sys/sync/destinations/in-mem/m/associations")).body.data.associated_secrets).toEqual({});
    expect((await list("/sys/sync/destinations/in-mem")).body.data.keys).toEqual(["m"]);
    // Pending updates of the listings arrive and do not affect the new destination.
    expect((await setAssociation("in-mem/m", "s0001")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    await eventually(async () => {
      expect((await list("/sys/sync/associations")).body.data.keys).toEqual(["kv/s0001"]);
      await runInDurableObject(destination("in-mem/m"), (_object: SyncDestination, { storage }) => {
        expect(storage.sql.exec("SELECT * FROM outbox").toArray()).toEqual([]);
      });
    }, 200_000);
    await write("s0001", { v: "new" });
    await eventually(async () => expect((await association("in-mem/m", "s0001"))?.["synced_version"]).toBe(2));
  }, 600_000);
});
