import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { settings } from "../../src/platform/settings.ts";
import { KvStore, SyncDestination } from "../../src/worker.ts";
import { del, get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  cloudABody,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";
import { numbered, writeMany } from "./sync-limits.ts";
import { byItself, time } from "./sync-time.ts";

clock.moves = true;

const D = "cloud-a-sm/d";
const M = "in-mem/m";
const HOUR = 3_600_000;
let mount = { accessor: "", uuid: "" };

beforeEach(async () => {
  time.begin();
  await cloudA.begin();
  mount = await mountKv();
  await makeDestination("cloud-a-sm", "d", cloudABody({ secret_name_template: "{{ .SecretPath }}" }));
  await makeDestination("in-mem", "m", { secret_name_template: "{{ .SecretPath }}" });
});

/** Changes in the mount are sent, and no destination receives them. */
const deaf = () => vi.spyOn(SyncDestination.prototype, "changed").mockResolvedValue(undefined);

const stub = (at: string) => env.SYNC_DESTINATION.getByName(at);

/** When the next page of the scan is due, or null. */
const scanDue = (at: string): Promise<number | null> =>
  runInDurableObject(stub(at), (_object, state) => {
    const [row] = state.storage.sql.exec<{ next_at: number }>("SELECT next_at FROM scan").toArray();
    return row?.next_at ?? null;
  });

/** Events within the hour before the next resync. */
const withinTheHour = (check: () => Promise<void>, at: string) =>
  byItself(
    async () => {
      await check();
    },
    [at],
    { stepMs: HOUR / 40 },
  );

describe("the resync", () => {
  it("finds an unreported change at every destination, and a version that expired", async () => {
    await write("app", { v: 1 });
    await write("gone", { v: 1 });
    for (const at of [D, M]) for (const secret of ["app", "gone"]) await setAssociation(at, secret);
    deaf();
    await write("app", { v: 2 });
    await del("/v1/kv/data/gone");
    await scheduler.wait(200);
    expect(await objects("m")).toEqual({ app: '{"v":1}', gone: '{"v":1}' });
    await withinTheHour(async () => expect(await objects("m")).toEqual({ app: '{"v":2}' }), M);
    await withinTheHour(async () => {
      expect([await cloudA.value("app"), await cloudA.value("gone")]).toEqual(['{"v":2}', undefined]);
      expect((await association(D, "gone"))?.sync_status).toBe("UNSYNCED");
    }, D);
  });

  it("retries refused associations without a change", async () => {
    await write("app", { v: 1 });
    await cloudA.fault({ fault: "error", type: "InvalidParameterException", operation: "CreateSecret" });
    expect((await setAssociation(D, "app")).body.data.sync_operation_counters).toEqual({ CLIENT_SIDE_ERROR: 1 });
    await withinTheHour(async () => expect(await cloudA.value("app")).toBe('{"v":1}'), D);
  });

  it("retries failed removals", async () => {
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret" });
    await removeAssociation(D, "app");
    expect((await association(D, "app"))?.sync_status).toBe("CLIENT_SIDE_ERROR");
    await withinTheHour(async () => {
      expect(await association(D, "app")).toBeUndefined();
      expect(await cloudA.secrets()).toEqual([]);
    }, D);
  });

  it("removes the objects left by a failed purge, but not the destination", async () => {
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret" });
    await del(`/sys/sync/destinations/${D}?purge=true`);
    const state = async () => (await get(`/sys/sync/destinations/${D}`)).body.data;
    await vi.waitFor(async () => expect((await state()).purge_error).toContain("1 secret could not be removed"));
    await withinTheHour(async () => expect(await cloudA.secrets()).toEqual([]), D);
    expect((await state()).purge_error).not.toBe("");
    expect((await del(`/sys/sync/destinations/${D}?purge=true`)).status).toBe(204);
    expect((await get(`/sys/sync/destinations/${D}`)).status).toBe(404);
  });

  it("does not push up-to-date associations", async () => {
    await write("app", { v: 1 });
    await setAssociation(D, "app");
    const before = await scanDue(D);
    const start = (await cloudA.requests()).length;
    await withinTheHour(async () => expect(await scanDue(D)).toBeGreaterThan(before ?? 0), D);
    expect((await cloudA.requests()).slice(start)).toEqual([]);
  });

  it("compares all associations, page by page", async () => {
    const secrets = await writeMany(mount, numbered("s", 450));
    for (let from = 0; from < secrets.length; from += 50) {
      await Promise.all(secrets.slice(from, from + 50).map((secret) => stub(M).set(secret)));
    }
    await byItself(async () => expect(Object.keys(await objects("m"))).toHaveLength(450), [M]);
    const asked = vi.spyOn(KvStore.prototype, "newestVersions");
    deaf();
    for (const name of ["s0000", "s0199", "s0200", "s0399", "s0449"]) await write(name, { v: 2 });
    await withinTheHour(async () => {
      const changed = Object.entries(await objects("m")).filter(([, value]) => value === '{"v":2}');
      expect(changed.map(([name]) => name)).toEqual(["s0000", "s0199", "s0200", "s0399", "s0449"]);
    }, M);
    expect(Math.max(...asked.mock.calls.map(([paths]) => paths.length))).toBeLessThan(450);
  }, 60_000);

  it("compares secrets of one mount while another mount does not answer", async () => {
    const other = await mountKv("other");
    await write("app", { v: 1 });
    await put("/v1/other/data/second", { data: { v: 1 } });
    await setAssociation(M, "app");
    await setAssociation(M, "second", "other");
    deaf();
    await write("app", { v: 2 });
    await put("/v1/other/data/second", { data: { v: 2 } });
    const real = KvStore.prototype.newestVersions;
    const down = vi.spyOn(KvStore.prototype, "newestVersions").mockImplementation(function (this: KvStore, paths) {
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      if (ctx.id.name === other.uuid) throw new Error("the mount is down");
      return real.call(this, paths);
    });
    await withinTheHour(async () => expect(await objects("m")).toEqual({ app: '{"v":2}', second: '{"v":1}' }), M);
    down.mockRestore();
    await withinTheHour(async () => expect(await objects("m")).toEqual({ app: '{"v":2}', second: '{"v":2}' }), M);
  });

  it("begins with the first association and stops after the last", async () => {
    expect(await scanDue(M)).toBeNull();
    await write("app", { v: 1 });
    await setAssociation(M, "app");
    expect(await scanDue(M)).not.toBeNull();
    await removeAssociation(M, "app");
    await withinTheHour(async () => {
      expect(await scanDue(M)).toBeNull();
      expect(await runInDurableObject(stub(M), (object) => object.nextDue())).toBeNull();
    }, M);
  });

  it("starts again at once when the configuration is written", async () => {
    await write("app", { v: 1 });
    await setAssociation(M, "app");
    deaf();
    await write("app", { v: 2 });
    await makeDestination("in-mem", "m", {});
    await vi.waitFor(async () => expect(await objects("m")).toEqual({ app: '{"v":2}' }));
    expect(await scanDue(M)).toBeGreaterThan(Date.now() + HOUR / 2);
  });

  it("runs at the interval SYNC_SCAN_MS, hourly by default", async () => {
    await write("app", { v: 1 });
    await setAssociation(M, "app");
    expect(Math.abs(((await scanDue(M)) ?? 0) - Date.now() - HOUR)).toBeLessThan(60_000);
    // Settings are read once, and each object asks for them when it begins.
    const shared = await runInDurableObject(stub(M), (object) => {
      const { env: its } = object as unknown as { env: Env };
      return settings(its) as { SYNC_SCAN_MS: number };
    });
    shared.SYNC_SCAN_MS = 120_000;
    try {
      await makeDestination("in-mem", "often", {});
      await setAssociation("in-mem/often", "app");
      expect(Math.abs(((await scanDue("in-mem/often")) ?? 0) - Date.now() - 120_000)).toBeLessThan(30_000);
      deaf();
      await write("app", { v: 2 });
      const told = Date.now();
      const holdsNewest = async () => expect(Object.values(await objects("often"))).toEqual(['{"v":2}']);
      await byItself(holdsNewest, ["in-mem/often"], { stepMs: 20_000 });
      expect(Date.now() - told).toBeLessThan(HOUR / 2);
    } finally {
      shared.SYNC_SCAN_MS = HOUR;
    }
  });
});
