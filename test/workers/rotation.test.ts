import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { AccessControl } from "../../src/objects/access-control.ts";
import { KvStore } from "../../src/objects/kv-store.ts";
import type { SyncDestination } from "../../src/objects/sync-destination.ts";
import { del, get, mountKv, put } from "./client.ts";
import { deployWithMasterKey, FIRST_KEY, inEveryObject, inStore, key } from "./sealing-helpers.ts";
import { subscribe } from "./webhooks.ts";

/** Rotation of keys: new data keys at once, older ones rewrapped, while reads and writes continue. */

let kv: { accessor: string; uuid: string };
const access = () => env.ACCESS_CONTROL.getByName("main") as DurableObjectStub<AccessControl>;
const status = async () => (await get("/v1/sys/key-status")).body.data;
const rotate = () => put("/v1/sys/rotate", "");

/** The key terms that the stored versions of a path name, oldest first. */
const termsOf = (path: string, uuid = kv.uuid) =>
  inStore(uuid, (_store, state) =>
    state.storage.sql
      .exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM versions WHERE path = ? ORDER BY version", path)
      .toArray()
      .map((row) => Buffer.from(row.sealed).readUInt32BE(0)),
  );

/** Which master keys the data keys of a mount are wrapped by. */
const mastersOf = (uuid: string) =>
  inStore(uuid, (_store, state) =>
    state.storage.sql
      .exec<{ master: string }>("SELECT DISTINCT master FROM data_keys ORDER BY term")
      .toArray()
      .map((row) => row.master),
  );

beforeEach(async () => {
  kv = await mountKv();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await deployWithMasterKey(FIRST_KEY);
});

it("seals new values under a new term and still reads the old ones", async () => {
  await put("/v1/kv/data/a", { data: { n: 1 } });
  expect(await status()).toMatchObject({ term: 1, pending_rewraps: 0 });
  const rotated = await rotate();
  expect([rotated.status, rotated.text]).toEqual([204, ""]);
  await put("/v1/kv/data/a", { data: { n: 2 } });
  await rotate();
  await put("/v1/kv/data/a", { data: { n: 3 } });
  expect(await termsOf("a")).toEqual([1, 2, 3]);
  await abortAllDurableObjects();
  for (const n of [1, 2, 3]) expect((await get(`/v1/kv/data/a?version=${n}`)).body.data.data).toEqual({ n });
});

it("shows the term, its time and the pending objects, in data and at the top level", async () => {
  const before = Date.now();
  await rotate();
  const answer = await get("/v1/sys/key-status");
  expect(answer.body.data).toEqual({
    term: 2,
    install_time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/),
    encryptions: 0,
    pending_rewraps: 0,
  });
  expect(answer.body).toMatchObject({ term: 2, install_time: answer.body.data.install_time });
  expect(Date.parse(answer.body.data.install_time)).toBeGreaterThanOrEqual(before);
});

it("replaces the master key: add, rotate, drop the old one, and everything still opens", async () => {
  const destination = "/v1/sys/sync/destinations/in-mem/m";
  await put(destination, {});
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await put("/v1/kv/data/a", { data: { n: 2 } });
  await put("/v1/kv/delete/a", { versions: [1] });
  await put(`${destination}/associations/set`, { mount: "kv", secret_name: "a" });
  const token = (await put("/v1/auth/token/create", { policies: ["root"] })).body.auth.client_token;
  const other = await mountKv("other");
  await put("/v1/other/data/b", { data: { n: 3 } });

  await deployWithMasterKey(`${key("second")},${FIRST_KEY}`);
  expect((await get("/v1/kv/data/a")).status).toBe(200);
  expect((await rotate()).status).toBe(204);
  expect(await status()).toMatchObject({ term: 2, pending_rewraps: 0 });
  for (const uuid of [kv.uuid, other.uuid]) expect(await mastersOf(uuid)).toHaveLength(1);

  await deployWithMasterKey(key("second"));
  expect((await get("/v1/sys/health")).status).toBe(200);
  expect((await get("/v1/kv/data/a", { token })).body.data.data).toEqual({ n: 2 });
  await put("/v1/kv/undelete/a", { versions: [1] });
  expect((await get("/v1/kv/data/a?version=1")).body.data.data).toEqual({ n: 1 });
  expect((await get("/v1/other/data/b")).body.data.data).toEqual({ n: 3 });
  expect((await get(`${destination}/objects`)).text).toContain('{\\"n\\":2}');
  expect((await put("/v1/kv/data/a", { data: { n: 4 } })).status).toBe(200);

  await deployWithMasterKey(FIRST_KEY);
  const refused = await get("/v1/kv/data/a");
  expect([refused.status, refused.body.errors]).toEqual([
    503,
    [expect.stringContaining("which MASTER_KEY does not hold")],
  ]);
});

it("rewraps the keys of every object at each rotation, so that the previous master key can be dropped", async () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = privateKey.export({ type: "pkcs1", format: "pem" });
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await put("/v1/sys/sync/destinations/in-mem/m", {});
  await subscribe("s", "https://receiver.invalid/");
  expect((await put("/v1/sys/sync/repo-host-apps/bot", { app_id: 1, private_key: pem })).status).toBe(200);
  expect((await put("/v1/sys/mounts/azure", { type: "cloud-b" })).status).toBe(204);
  const ids = { subscription_id: crypto.randomUUID(), tenant_id: crypto.randomUUID(), client_id: "c" };
  expect((await put("/v1/azure/config", { ...ids, client_secret: "s" })).status).toBe(204);
  const keySet = async () => (await get("/v1/identity/oidc/plugins/.well-known/keys", { token: null })).body;
  const published = await keySet();
  for (const [before, after] of [
    [FIRST_KEY, key("second")],
    [key("second"), key("third")],
  ] as const) {
    await deployWithMasterKey(`${after},${before}`);
    expect((await rotate()).status).toBe(204);
    const masters: Record<string, string[]> = {};
    await inEveryObject((object, { storage: { sql } }) => {
      if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'data_keys'").toArray().length === 0) return;
      const rows = sql.exec<{ master: string }>("SELECT DISTINCT master FROM data_keys").toArray();
      masters[object.constructor.name] = rows.map(({ master }) => master);
    });
    const newest = masters["AccessControl"];
    expect(newest).toHaveLength(1);
    const kinds = ["AccessControl", "KvStore", "SyncDestination", "SyncControl", "CredentialEngine", "IdentityIssuer"];
    kinds.push("EventSubscription");
    expect(masters).toEqual(Object.fromEntries(kinds.map((kind) => [kind, newest])));
    await deployWithMasterKey(after);
    expect((await get("/v1/kv/data/a")).status).toBe(200);
    expect((await get("/v1/azure/config")).body.data.client_id).toBe("c");
    expect(await keySet()).toEqual(published);
  }
});

it("is used by objects created after it, which seal under its term", async () => {
  await rotate();
  await put("/v1/sys/sync/destinations/in-mem/late", {});
  const terms = await runInDurableObject(
    env.SYNC_DESTINATION.getByName("in-mem/late") as DurableObjectStub<SyncDestination>,
    (_object, { storage: { sql } }) => sql.exec<{ term: number }>("SELECT max(term) AS term FROM data_keys").one().term,
  );
  expect(terms).toBe(2);
});

it("dropping a master key without a rotation makes the service return 503, and restoring it recovers", async () => {
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await deployWithMasterKey(key("second"));
  expect((await get("/v1/kv/data/a")).status).toBe(503);
  await deployWithMasterKey(`${key("second")},${FIRST_KEY}`);
  expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ n: 1 });
});

it("that a mount missed is shown as pending, and the alarm completes it", async () => {
  await mountKv("other");
  await put("/v1/other/data/b", { data: { n: 1 } });
  // Fails each time: an alarm may try again before the status is read.
  const rekey = vi.spyOn(KvStore.prototype, "rekey").mockImplementation(function (this: KvStore) {
    (this as unknown as { ctx: DurableObjectState }).ctx.abort("killed while it re-wraps");
  });
  await deployWithMasterKey(`${key("second")},${FIRST_KEY}`);
  expect((await rotate()).status).toBe(204);
  expect(rekey).toHaveBeenCalled();
  expect((await status()).pending_rewraps).toBeGreaterThan(0);
  rekey.mockRestore();
  expect((await put("/v1/other/data/b", { data: { n: 2 } })).status).toBe(200);
  await vi.waitFor(
    async () => {
      await runDurableObjectAlarm(access());
      expect(await status()).toMatchObject({ term: 2, pending_rewraps: 0 });
    },
    { interval: 300 },
  );
  await deployWithMasterKey(key("second"));
  expect((await get("/v1/other/data/b?version=1")).body.data.data).toEqual({ n: 1 });
  expect((await get("/v1/other/data/b")).body.data.data).toEqual({ n: 2 });
});

it("continues after a crash and restart of AccessControl", async () => {
  await mountKv("other");
  await put("/v1/other/data/b", { data: { n: 1 } });
  const seen: string[] = [];
  vi.spyOn(KvStore.prototype, "rekey").mockImplementationOnce(async () => {
    seen.push("killed");
    await runInDurableObject(access(), (_object, state) => state.abort("killed while it conducts")).catch(
      () => undefined,
    );
  });
  const cut = await rotate();
  expect(seen).toEqual(["killed"]);
  expect(cut.status).toBeGreaterThanOrEqual(500);
  await vi.waitFor(
    async () => {
      await runDurableObjectAlarm(access());
      expect(await status()).toMatchObject({ term: 2, pending_rewraps: 0 });
    },
    { interval: 300 },
  );
  await put("/v1/other/data/b", { data: { n: 2 } });
  expect((await get("/v1/other/data/b?version=1")).body.data.data).toEqual({ n: 1 });
  expect((await get("/v1/other/data/b")).body.data.data).toEqual({ n: 2 });
});

it("does not delay concurrent reads and writes", async () => {
  await put("/v1/kv/data/a", { data: { n: 0 } });
  const work = Array.from({ length: 10 }, (_, n) => [put(`/v1/kv/data/p${n}`, { data: { n } }), get("/v1/kv/data/a")]);
  const [answers, ...rotations] = await Promise.all([Promise.all(work.flat()), rotate(), rotate()]);
  expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200));
  expect(rotations.map((answer) => answer.status)).toEqual([204, 204]);
  expect(await status()).toMatchObject({ term: 3, pending_rewraps: 0 });
  await abortAllDurableObjects();
  for (let n = 0; n < 10; n++) expect((await get(`/v1/kv/data/p${n}`)).body.data.data).toEqual({ n });
});

it("includes mounts created after an earlier one, and skips deleted ones", async () => {
  await rotate();
  const late = await mountKv("late");
  await put("/v1/late/data/a", { data: { n: 1 } });
  await del("/v1/sys/mounts/kv");
  await rotate();
  await put("/v1/late/data/a", { data: { n: 2 } });
  expect((await termsOf("a", late.uuid)).at(-1)).toBe(3);
  expect((await get("/v1/late/data/a?version=1")).body.data.data).toEqual({ n: 1 });
  expect(await status()).toMatchObject({ term: 3, pending_rewraps: 0 });
});

it("repeated for the same term changes no key", async () => {
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await rotate();
  await inStore(kv.uuid, (store) => {
    store.rekey(2);
    store.rekey(1);
  });
  await put("/v1/kv/data/a", { data: { n: 2 } });
  expect(await termsOf("a")).toEqual([1, 2]);
  expect((await get("/v1/kv/data/a?version=1")).body.data.data).toEqual({ n: 1 });
});

it("requires sudo, and its status requires a capability to read it", async () => {
  const token = async (policy: string) => {
    await put("/v1/sys/policies/acl/p", { policy });
    return { token: (await put("/v1/auth/token/create", { policies: ["p"] })).body.auth.client_token };
  };
  const update = await token('path "sys/rotate" { capabilities = ["update"] }');
  expect((await put("/v1/sys/rotate", "", update)).status).toBe(403);
  expect((await get("/v1/sys/key-status", update)).status).toBe(403);
  const sudo = await token(
    'path "sys/rotate" { capabilities = ["update", "sudo"] } path "sys/key-status" { capabilities = ["read"] }',
  );
  expect((await put("/v1/sys/rotate", "", sudo)).status).toBe(204);
  expect((await get("/v1/sys/key-status", sudo)).body.data.term).toBe(2);
});

it("is not offered inside a namespace", async () => {
  await put("/v1/sys/namespaces/ns", {});
  const inside = { headers: { "X-Orch-Namespace": "ns" } };
  expect((await put("/v1/sys/rotate", "", inside)).status).toBe(400);
  expect((await put("/v1/ns/sys/rotate", "")).status).toBe(400);
  expect((await get("/v1/sys/key-status", inside)).status).toBe(400);
  expect(await status()).toMatchObject({ term: 1 });
});
