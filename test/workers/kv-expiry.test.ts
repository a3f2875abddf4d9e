import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { get, mountKv, put } from "./client.ts";
import { PassingTime } from "./clock-and-alarms.ts";
import { inStore } from "./sealing-helpers.ts";

/** `delete_version_after` deletes a version without a request: the store's alarm notifies the watchers. */

const destination = "/v1/sys/sync/destinations/in-mem/d";
const held = async () => Object.values((await get(`${destination}/objects`)).body.data?.objects ?? {});
const associate = () => put(`${destination}/associations/set`, { mount: "kv", secret_name: "a" });

const pass = (ms: number) => new PassingTime({ mounts: [uuid], destinations: ["in-mem/d"] }).pass(ms);

let uuid: string;
beforeEach(async () => {
  uuid = (await mountKv()).uuid;
  await put(destination, {});
});

it("removes a secret from its destination when the newest version expires, also after a restart", async () => {
  await put("/v1/kv/metadata/a", { delete_version_after: "1h" });
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await associate();
  await vi.waitFor(async () => expect(await held()).toMatchObject([{ value: '{"n":1}' }]));
  await abortAllDurableObjects();
  await pass(3_600_000);
  await vi.waitFor(async () => expect(await held()).toEqual([]));
});

it("falls back to the newest version that still lives", async () => {
  await put("/v1/kv/data/a", { data: { n: 1 } });
  await associate();
  await put("/v1/kv/metadata/a", { delete_version_after: "1h" });
  await put("/v1/kv/data/a", { data: { n: 2 } });
  await vi.waitFor(async () => expect(await held()).toMatchObject([{ value: '{"n":2}' }]));
  await pass(3_600_000);
  await vi.waitFor(async () => expect(await held()).toMatchObject([{ value: '{"n":1}' }]));
});

it("wakes for watched paths only, later for an undeleted version, and not for one that was destroyed", async () => {
  const due = () => inStore(uuid, (store) => store.nextDue());
  await put("/v1/kv/metadata/a", { delete_version_after: "1h" });
  const written = await put("/v1/kv/data/a", { data: { n: 1 } });
  expect(await due()).toBeNull();
  await associate();
  expect(await due()).toBe(Date.parse(written.body.data.deletion_time));
  await put("/v1/kv/metadata/a", { delete_version_after: "2h" });
  const before = Date.now();
  await put("/v1/kv/undelete/a", { versions: [1] });
  await vi.waitFor(async () => expect(await due()).toBeGreaterThanOrEqual(before + 7_200_000));
  await put("/v1/kv/data/a", { data: { n: 2 } });
  await put("/v1/kv/destroy/a", { versions: [1, 2] });
  await vi.waitFor(async () => expect(await due()).toBeNull());
});

it("sets its alarm to the earliest expiry", async () => {
  const alarm = () => runInDurableObject(env.KV_STORE.getByName(uuid), (_object, { storage }) => storage.getAlarm());
  for (const [secret, life] of [
    ["a", "2h"],
    ["b", "1h"],
  ]) {
    await put(`/v1/kv/metadata/${secret}`, { delete_version_after: life });
    const written = await put(`/v1/kv/data/${secret}`, { data: { n: 1 } });
    await put(`${destination}/associations/set`, { mount: "kv", secret_name: secret });
    const end = Date.parse(written.body.data.deletion_time);
    await vi.waitFor(async () => expect(await alarm()).toBe(end));
  }
});
