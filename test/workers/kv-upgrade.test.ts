import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { accessControl, kvStore } from "../../src/rpc/stubs.ts";
import { KvStore } from "../../src/worker.ts";
import { accessObject } from "./access.ts";
import { type Answer, del, get, list, put } from "./client.ts";
import { evictObject } from "./evict-all.ts";

/** The upgrade of a KV mount from version 1 to version 2 (docs/guides/secrets.md). */

const errors = (answer: Answer): string[] => [`${answer.status}`, ...(answer.body?.errors ?? [])];
const upgrade = () => put("/v1/sys/mounts/one/tune", { options: { version: "2" } });
const RIGHTS = { create: true, update: true };
let uuid = "";

beforeEach(async () => {
  await put("/v1/sys/mounts/one", { type: "kv" });
  uuid = (await get("/v1/sys/mounts/one")).body.data.uuid;
  await put("/v1/one/app/db", { password: "p", n: 1 });
  await put("/v1/one/data/x", { in: "a folder" });
});

afterEach(() => void vi.restoreAllMocks());

describe("POST sys/mounts/:path/tune with version 2", () => {
  it("makes every secret version 1 of a versioned secret, at once", async () => {
    const before = (await get("/v1/sys/mounts/one")).body.data;
    const upgraded = await upgrade();
    expect([upgraded.status, upgraded.text]).toEqual([204, ""]);
    const mount = (await get("/v1/sys/internal/ui/mounts/one/app/db")).body.data;
    expect(mount).toEqual({ ...before, options: { version: "2" }, path: "one/" });
    const { data } = (await get("/v1/one/data/app/db")).body;
    expect(data).toMatchObject({ data: { password: "p", n: 1 }, metadata: { version: 1, destroyed: false } });
    expect((await get("/v1/one/data/data/x")).body.data.data).toEqual({ in: "a folder" });
    expect((await list("/v1/one/metadata")).body.data.keys).toEqual(["app/", "data/"]);
    expect((await get("/v1/one/metadata/app/db")).body.data).toMatchObject({ current_version: 1, max_versions: 0 });
    const written = await put("/v1/one/data/app/db", { data: { password: "q" }, options: { cas: 1 } });
    expect(written.body.data.version).toBe(2);
    expect((await get("/v1/one/data/app/db?version=1")).body.data.data).toEqual({ password: "p", n: 1 });
  });

  it("ends the paths of version 1", async () => {
    await upgrade();
    for (const answer of [
      await get("/v1/one/app/db"),
      await put("/v1/one/app/db", { k: 1 }),
      await del("/v1/one/app/db"),
    ]) {
      expect([answer.status, answer.body.warnings[0]]).toEqual([
        404,
        expect.stringMatching(/^Invalid path for a versioned K\/V secrets engine/),
      ]);
    }
  });

  it("may be repeated, and keeps the other options", async () => {
    await put("/v1/sys/mounts/one/tune", { options: { owner: "us" } });
    for (let n = 0; n < 2; n++) expect((await upgrade()).status).toBe(204);
    expect((await get("/v1/sys/mounts/one")).body.data.options).toEqual({ owner: "us", version: "2" });
    expect((await get("/v1/one/data/app/db")).body.data.metadata.version).toBe(1);
  });

  it("allows associations of its secrets", async () => {
    await upgrade();
    await put("/v1/sys/sync/destinations/in-mem/d", {});
    const body = { mount: "one", secret_name: "app/db" };
    expect((await put("/v1/sys/sync/destinations/in-mem/d/associations/set", body)).status).toBe(200);
    await put("/v1/one/data/app/db", { data: { password: "q" } });
    await expect.poll(async () => (await get("/v1/sys/sync/destinations/in-mem/d/objects")).text).toContain('\\"q\\"');
  });

  it("is refused in the other direction, and for an unknown version", async () => {
    expect((await put("/v1/sys/mounts/one/tune", { options: { version: "1" } })).status).toBe(204);
    expect((await get("/v1/one/app/db")).status).toBe(200);
    expect(errors(await put("/v1/sys/mounts/one/tune", { options: { version: "3" } }))).toEqual([
      "400",
      'options.version: must be "1" or "2"',
    ]);
    await upgrade();
    const refused = await put("/v1/sys/mounts/one/tune", { options: { version: "1" }, description: "new" });
    expect(errors(refused)).toEqual(["400", "cannot downgrade mount from version 2"]);
    expect((await get("/v1/sys/mounts/one")).body.data).toMatchObject({ description: "", options: { version: "2" } });
  });

  it("changes nothing when other settings are refused", async () => {
    const body = { options: { version: "2" }, default_lease_ttl: "2h", max_lease_ttl: "1h" };
    expect((await put("/v1/sys/mounts/one/tune", body)).status).toBe(400);
    expect((await get("/v1/one/app/db")).status).toBe(200);
  });
});

describe("a write of version 1 that was authorized before the upgrade", () => {
  it("is answered like one after it, and changes nothing", async () => {
    // Another isolate upgrades the mount: the cached grant of this one still names version 1.
    await put("/v1/one/app/db", { password: "p", n: 1 });
    const tuned = await accessControl(env).tuneMount("", "one", { options: { version: "2" } });
    expect(tuned.ok).toBe(true);
    const late = await put("/v1/one/app/db", { password: "late" });
    expect([late.status, late.body.warnings[0]]).toEqual([404, expect.stringMatching(/^Invalid path for a versioned/)]);
    expect((await get("/v1/one/data/app/db")).body.data.data).toEqual({ password: "p", n: 1 });
  });

  it("never replaces a version, although the store was not notified of the upgrade", async () => {
    vi.spyOn(KvStore.prototype, "enableVersioning").mockImplementation(() => {
      throw new Error("unreachable");
    });
    expect((await upgrade()).status).toBe(204);
    expect((await put("/v1/one/data/app/db", { data: { password: "q" } })).body.data.version).toBe(2);
    const store = kvStore(env, uuid);
    expect(await store.putUnversioned("app/db", '{"late":1}', RIGHTS)).toMatchObject({ ok: false, reason: "conflict" });
    expect(await store.deleteUnversioned("app/db")).toMatchObject({ ok: false, reason: "conflict" });
    expect((await get("/v1/one/data/app/db")).body.data).toMatchObject({
      data: { password: "q" },
      metadata: { version: 2 },
    });
  });

  it("is refused in a mount that had no secret before the upgrade", async () => {
    await put("/v1/sys/mounts/empty", { type: "kv-v1" });
    const store = kvStore(env, (await get("/v1/sys/mounts/empty")).body.data.uuid);
    vi.spyOn(KvStore.prototype, "enableVersioning").mockImplementation(() => undefined);
    await put("/v1/sys/mounts/empty/tune", { options: { version: "2" } });
    await put("/v1/empty/data/a", { data: { k: 1 } });
    expect(await store.putUnversioned("a", '{"late":1}', RIGHTS)).toMatchObject({ ok: false, reason: "conflict" });
  });
});

describe("a crash during the upgrade", () => {
  it("after the mount changed loses nothing: the store is notified later", async () => {
    const told = vi.spyOn(KvStore.prototype, "enableVersioning").mockImplementation(() => {
      throw new Error("crashed");
    });
    expect((await upgrade()).status).toBe(204);
    await evictObject(accessObject());
    await evictObject(env.KV_STORE.getByName(uuid));
    expect((await get("/v1/one/data/app/db")).body.data).toMatchObject({
      data: { password: "p" },
      metadata: { version: 1 },
    });
    told.mockRestore();
    await expect
      .poll(
        async () => {
          await runDurableObjectAlarm(accessObject());
          return (await kvStore(env, uuid).putUnversioned("app/db", '{"late":1}', RIGHTS)).ok;
        },
        { interval: 500 },
      )
      .toBe(false);
  });

  it("keeps every acknowledged write", async () => {
    const names = Array.from({ length: 40 }, (_, n) => `n${n}`);
    const writes = names.map(async (name, n) => {
      await scheduler.wait(n);
      return { name, status: (await put(`/v1/one/${name}`, { name })).status };
    });
    await scheduler.wait(10);
    expect((await upgrade()).status).toBe(204);
    for (const { name, status } of await Promise.all(writes)) {
      expect([204, 404], name).toContain(status);
      const read = await get(`/v1/one/data/${name}`);
      if (status === 204) expect(read.body.data.data, name).toEqual({ name });
      else expect(read.status, name).toBe(404);
    }
  });
});
