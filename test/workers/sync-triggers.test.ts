import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { del, get, mountKv, patch, put } from "./client.ts";
import { PassingTime } from "./clock-and-alarms.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";

const D = "cloud-a-sm/d";
const M = "in-mem/m";

let uuid: string;
beforeEach(async () => {
  await cloudA.begin();
  ({ uuid } = await mountKv());
  await makeDestination("cloud-a-sm", "d", cloudABody({ secret_name_template: "{{ .SecretPath }}" }));
  await makeDestination("in-mem", "m", { secret_name_template: "{{ .SecretPath }}" });
});

/** Both destinations hold this value of `app`, and say so; undefined: neither holds one. */
const bothHold = (value: string | undefined, version?: number) =>
  eventually(async () => {
    expect([await cloudA.value("app"), (await objects("m"))["app"]]).toEqual([value, value]);
    for (const at of [D, M]) {
      expect(await association(at, "app")).toMatchObject({
        sync_status: value === undefined ? "UNSYNCED" : "SYNCED",
        ...(version !== undefined && { synced_version: version }),
      });
    }
  });

/** Waits until neither destination has anything to do, so that what has not come by then does not come. */
const quiet = () =>
  eventually(async () => {
    for (const at of [D, M]) {
      const next = await runInDurableObject(env.SYNC_DESTINATION.getByName(at), (object) => object.nextDue());
      expect((next ?? Number.POSITIVE_INFINITY) - Date.now()).toBeGreaterThan(60_000);
    }
  });

/** The changes at the provider since. */
const operationsSince = async (start: number) =>
  (await cloudA.requests()).slice(start).map(({ operation }) => operation);
const requestCount = async () => (await cloudA.requests()).length;

const setBoth = async () => {
  for (const at of [D, M]) expect((await setAssociation(at, "app")).status).toBe(200);
};

describe("for a synced secret", () => {
  beforeEach(async () => {
    await write("app", { v: 1 });
    await write("app", { v: 2 });
    await write("app", { v: 3 });
    await setBoth();
    await bothHold('{"v":3}', 3);
  });

  it("a write pushes the new version", async () => {
    await write("app", { v: 4 });
    await bothHold('{"v":4}', 4);
  });

  it("a patch pushes the new version, merged", async () => {
    const patched = await patch("/v1/kv/data/app", { data: { w: true } });
    expect(patched.status, patched.text).toBe(200);
    await bothHold('{"v":3,"w":true}', 4);
  });

  it("deleting the newest version pushes the newest living one", async () => {
    await put("/v1/kv/delete/app", { versions: [2] });
    await del("/v1/kv/data/app");
    await bothHold('{"v":1}', 1);
  });

  it("deleting or destroying an older version pushes no version", async () => {
    await quiet();
    const start = await requestCount();
    await put("/v1/kv/delete/app", { versions: [2] });
    await put("/v1/kv/destroy/app", { versions: [1] });
    await quiet();
    expect(await operationsSince(start)).toEqual([]);
    await bothHold('{"v":3}', 3);
  });

  it("destroying the newest version pushes the one before", async () => {
    await put("/v1/kv/destroy/app", { versions: [3] });
    await bothHold('{"v":2}', 2);
  });

  it("deleting all versions removes it, and undeleting one pushes that", async () => {
    await put("/v1/kv/delete/app", { versions: [1, 2, 3] });
    await bothHold(undefined);
    await put("/v1/kv/undelete/app", { versions: [2] });
    await bothHold('{"v":2}', 2);
    await put("/v1/kv/undelete/app", { versions: [3] });
    await bothHold('{"v":3}', 3);
    await quiet();
    const start = await requestCount();
    await put("/v1/kv/undelete/app", { versions: [1] });
    await quiet();
    expect(await operationsSince(start)).toEqual([]);
  });

  it("deleting the path removes it but keeps the association for a later write", async () => {
    await del("/v1/kv/metadata/app");
    await bothHold(undefined);
    for (const at of [D, M]) expect(await association(at, "app")).toBeDefined();
    await write("app", { v: "again" });
    await bothHold('{"v":"again"}', 1);
  });

  it("a change of its metadata causes no push", async () => {
    await quiet();
    const start = await requestCount();
    const changed = await put("/v1/kv/metadata/app", { custom_metadata: { owner: "x" }, max_versions: 7 });
    expect(changed.status).toBe(204);
    expect((await patch("/v1/kv/metadata/app", { custom_metadata: { owner: "y" } })).status).toBe(204);
    await quiet();
    expect(await operationsSince(start)).toEqual([]);
  });

  it("disabling the mount removes it; the association is still removed by the mount's path", async () => {
    await del("/v1/sys/mounts/kv");
    await bothHold(undefined);
    for (const at of [D, M]) {
      expect((await removeAssociation(at, "app")).status).toBe(200);
      await eventually(async () => expect(await association(at, "app")).toBeUndefined());
    }
    expect((await del("/sys/sync/destinations/cloud-a-sm/d")).status).toBe(204);
  });

  it("a new mount at the path of a disabled one has associations of its own", async () => {
    await del("/v1/sys/mounts/kv");
    await bothHold(undefined);
    await mountKv();
    await write("app", { v: "new mount" });
    await quiet();
    expect([await cloudA.value("app"), await objects("m")]).toEqual([undefined, {}]);
  });

  it("setting it again pushes it unchanged", async () => {
    await quiet();
    const start = await requestCount();
    await setAssociation(D, "app");
    await quiet();
    expect((await operationsSince(start)).filter((one) => one === "UpdateSecret")).toHaveLength(1);
    await write("app", { v: 3 });
    await bothHold('{"v":3}', 4);
    await quiet();
    expect((await operationsSince(start)).filter((one) => one === "UpdateSecret")).toHaveLength(1);
  });
});

it("removes an expired version, and pushes the one before", async () => {
  await put("/v1/kv/metadata/app", { delete_version_after: "0s" });
  await write("app", { v: "lasting" });
  await put("/v1/kv/metadata/app", { delete_version_after: "2m" });
  await write("app", { v: "passing" });
  await setBoth();
  await bothHold('{"v":"passing"}', 2);
  await new PassingTime({ mounts: [uuid], destinations: [D, M] }).pass(120_000);
  await bothHold('{"v":"lasting"}', 1);
});

it("removes the secret when older versions were pruned", async () => {
  await put("/v1/kv/metadata/app", { max_versions: 2 });
  for (const v of [1, 2, 3]) await write("app", { v });
  await setBoth();
  await bothHold('{"v":3}', 3);
  await put("/v1/kv/delete/app", { versions: [3] });
  await bothHold('{"v":2}', 2);
  await put("/v1/kv/delete/app", { versions: [2] });
  await bothHold(undefined);
});

it("pushes the newest of a thousand writes, and few others", async () => {
  await write("app", { v: 0 });
  await setBoth();
  await cloudA.fault({ fault: "delay", ms: 150, operation: "UpdateSecret", count: 1_000 });
  const start = await requestCount();
  for (let batch = 0; batch < 20; batch++) {
    await Promise.all(Array.from({ length: 50 }, (_, i) => write("app", { v: batch * 50 + i + 1 })));
  }
  const newest = JSON.stringify((await get("/v1/kv/data/app")).body.data.data);
  await bothHold(newest, 1_001);
  const pushes = (await operationsSince(start)).filter((one) => one === "UpdateSecret").length;
  expect(pushes).toBeGreaterThan(0);
  expect(pushes).toBeLessThan(300);
});

it("syncs a secret at one destination while the other fails, and there after the repair", async () => {
  await write("app", { v: 1 });
  await setBoth();
  await makeDestination("cloud-a-sm", "d", { secret_access_key: "wrong" });
  await write("app", { v: 2 });
  await eventually(async () => expect((await association(D, "app"))?.["error_code"]).toBe("auth_failed"));
  await eventually(async () => expect(await objects("m")).toEqual({ app: '{"v":2}' }));
  expect(await cloudA.value("app")).toBe('{"v":1}');
  const { body } = await get("/sys/sync/associations/destinations?mount=kv&secret_name=app");
  expect(body.data.associated_destinations).toMatchObject({
    [D]: { sync_status: "CLIENT_SIDE_ERROR" },
    [M]: { sync_status: "SYNCED" },
  });
  await write("app", { v: 3 });
  await makeDestination("cloud-a-sm", "d", cloudABody());
  await bothHold('{"v":3}', 3);
});
