import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { clearAuthorizeCache } from "../../src/access/authorize/authorize-cached.ts";
import { bornWith, type ObjectName } from "../../src/platform/durable/object-kinds.ts";
import { RESTORE_CHECK_MS } from "../../src/platform/durable/snapshot/snapshot-lock.ts";
import { ACCESS_CONTROL, SINGLETONS, storedObject } from "../../src/rpc/stored-objects.ts";
import { accessControl } from "../../src/rpc/stubs.ts";
import { AccessControl, ClusterRegistry, EventLog, KvStore, SyncDestination } from "../../src/worker.ts";
import { type Cut, cut } from "../crash/crash-point.ts";
import { part } from "../support/long.ts";
import { loseEverything, restore, rowsOf, snapshot } from "./backup-world.ts";
import { get, mountKv, put, send } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { evictObject } from "./evict-all.ts";
import { makeDestination, objects, setAssociation, write } from "./sync-helpers.ts";

clock.moves = true;
afterEach(() => void vi.restoreAllMocks());

/** A crash at any point of a restore leaves the snapshot wholly restored, or the deployment as empty as before. */

let file: Uint8Array | undefined;

/** A file of a small deployment, and a new one to restore it to. */
async function begin(): Promise<Uint8Array> {
  if (!file) {
    await mountKv();
    await write("a", { v: "a" });
    await makeDestination("in-mem", "m");
    await setAssociation("in-mem/m", "a");
    file = await snapshot();
    await loseEverything();
  }
  await get("/v1/sys/policies/acl/root");
  return file;
}

const works = async () => {
  clearAuthorizeCache();
  expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ v: "a" });
  expect(await objects("m")).toEqual({ [Object.keys(await objects("m"))[0] ?? ""]: '{"v":"a"}' });
  await write("a", { v: "b" });
  await vi.waitFor(async () => expect(Object.values(await objects("m"))).toEqual(['{"v":"b"}']));
};

/** Repeats the restore like an operator without an answer, until it is done; 409 "not empty" also means done. */
async function insist(bytes: Uint8Array): Promise<void> {
  for (let tries = 0; tries < 40; tries++) {
    const answer = await restore(bytes).catch(() => null);
    if (answer?.status === 200) return;
    if (answer?.status === 409 && answer.text.includes("not empty")) return;
    await runDurableObjectAlarm(env.ACCESS_CONTROL.getByName("main")).catch(() => false);
    await scheduler.wait(100);
  }
  throw new Error("never restored");
}

/** Single crashes at steps that decide the restore. */
const ALONE: Cut[] = [
  ["AccessControl", "completeRestore", "before"],
  ["AccessControl", "completeRestore", "after"],
  ["AccessControl", "stepRestore", "after"],
  ["AccessControl", "swap", "after"],
  ["AccessControl", "release", "after"],
  ["KvStore", "swap", "after"],
  ["KvStore", "release", "after"],
];

const ACCESS_STEPS = ["beginRestore", "joinRestore", "beginStaging", "stage", "completeRestore", "swap", "release"];
const OTHER_STEPS = ["holdForRestore", "beginStaging", "stage", "swap", "release"];

describe("a restore during which an object crashes", () => {
  it.each(part(ALONE))("%s, in %s, %s the step: completes when it is repeated", async (...step) => {
    const bytes = await begin();
    const happened = cut(step);
    await insist(bytes);
    expect(happened()).toBe(true);
    await works();
  });

  it.each([
    ["AccessControl", "before", ACCESS_STEPS],
    ["AccessControl", "after", ACCESS_STEPS],
    ["KvStore", "before", OTHER_STEPS],
    ["SyncDestination", "after", OTHER_STEPS],
  ] as const)("%s, once in each step, %s the step: completes when it is repeated", async (name, when, steps) => {
    const bytes = await begin();
    const happened = steps.map((method) => cut([name, method, when]));
    await insist(bytes);
    expect(happened.map((each) => each())).toEqual(steps.map(() => true));
    await works();
  });
});

/** A restore whose Worker dies after a number of frames, without an abort. */
async function dieHalfWay(restoreId = "dead"): Promise<void> {
  const access = accessControl(env);
  await access.beginRestore(restoreId);
  for (const object of SINGLETONS.filter((each) => each !== ACCESS_CONTROL)) {
    await access.joinRestore(restoreId, object);
    await storedObject(env, object).holdForRestore(restoreId, bornWith(object.kind));
    await storedObject(env, object).beginStaging(restoreId, { versions: { outbox: 1 }, sequences: {} });
  }
}

describe("a restore whose Worker crashes midway", () => {
  it("is reported by the deployment, which refuses writes, also after restarts, and can be repeated", async () => {
    const bytes = await begin();
    await dieHalfWay();
    for (const object of SINGLETONS) await evictObject(storedObject(env, object) as unknown as DurableObjectStub);
    clearAuthorizeCache();
    for (const path of ["/v1/sys/mounts", "/v1/nodes", "/sys/sync/config", "/v1/acl/tokens"]) {
      const refused = await get(path);
      expect([path, refused.status, refused.text]).toEqual([
        path,
        503,
        expect.stringContaining("a restore is under way, or has not ended"),
      ]);
    }
    expect((await put("/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } })).status).toBe(503);
    expect((await restore(bytes)).status).toBe(200);
    await works();
  });

  it("can be rolled back: the deployment is as empty as before, and works", async () => {
    await begin();
    const before = await rowsOf(SINGLETONS);
    await dieHalfWay();
    expect((await send("DELETE", "/v1/sys/snapshot")).status).toBe(204);
    expect(await rowsOf(SINGLETONS)).toEqual(before);
    clearAuthorizeCache();
    await mountKv();
    await write("a", { v: 1 });
  });

  it("is replaced by the next one", async () => {
    const bytes = await begin();
    await dieHalfWay();
    expect((await restore(bytes)).status).toBe(200);
    const late = await storedObject(env, { kind: "event-log", name: "log" }).stage("dead", "lines", [], []);
    expect(late).toMatchObject({ ok: false, reason: "conflict" });
    expect(await accessControl(env).completeRestore("dead")).toMatchObject({ ok: false });
    await works();
  });

  it("is rolled back automatically when the client disconnects", async () => {
    const bytes = await begin();
    const before = await rowsOf(SINGLETONS);
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes.subarray(0, bytes.length - 100));
        controller.error(new Error("the line is dead"));
      },
    });
    await restore(body).catch(() => null);
    await vi.waitFor(async () => expect(await rowsOf(SINGLETONS)).toEqual(before));
    expect((await restore(bytes)).status).toBe(200);
    await works();
  });
});

describe("an object that is held after its restore was undone", () => {
  const REGISTRY: ObjectName = { kind: "cluster-registry", name: "main" };
  const stubOf = (object: ObjectName) => storedObject(env, object) as unknown as DurableObjectStub;
  const held = (): Promise<boolean[]> =>
    Promise.all(
      SINGLETONS.map((object) =>
        runInDurableObject(stubOf(object), (_object, { storage }) => storage.kv.get("hold") !== undefined),
      ),
    );
  const free = SINGLETONS.map(() => false);

  it("is released by the loader of the restore", async () => {
    const bytes = await begin();
    const prototype = AccessControl.prototype as unknown as Record<string, (...given: unknown[]) => unknown>;
    const join = prototype["joinRestore"];
    vi.spyOn(prototype, "joinRestore").mockImplementationOnce(async function (this: AccessControl, ...given) {
      const joined = join?.apply(this, given);
      await this.undoRestore(null);
      return joined;
    });
    expect((await restore(bytes)).status).toBe(409);
    expect(await held()).toEqual(free);
  });

  it("is released by its alarm when the loader is gone, and stays while the restore exists", async () => {
    await begin();
    const access = accessControl(env);
    const late = () => storedObject(env, REGISTRY).holdForRestore("gone", bornWith(REGISTRY.kind));
    // An idle object is out of memory when its alarm comes.
    const check = async () => {
      time.advance(RESTORE_CHECK_MS);
      await evictObject(stubOf(REGISTRY));
      await runDurableObjectAlarm(stubOf(REGISTRY));
    };
    const time = new ShiftedClock();
    expect((await access.beginRestore("gone")).ok).toBe(true);
    expect([await access.joinRestore("gone", REGISTRY), await late()]).toMatchObject([{ ok: true }, { ok: true }]);
    await check();
    expect((await held())[0]).toBe(true);
    expect((await send("DELETE", "/v1/sys/snapshot")).status).toBe(204);
    expect((await late()).ok).toBe(true);
    await check();
    expect(await held()).toEqual(free);
  });
});

describe("a restore whose Worker crashes after all rows were received", () => {
  it("completes automatically, and no object starts before all have their rows", async () => {
    const bytes = await begin();
    const order: string[] = [];
    for (const kind of [KvStore, SyncDestination, EventLog, ClusterRegistry, AccessControl]) {
      for (const method of ["swap", "release"] as const) {
        const prototype = kind.prototype as unknown as Record<string, (restore: string) => unknown>;
        const original = prototype[method];
        vi.spyOn(prototype, method).mockImplementation(function (this: unknown, restoreId) {
          order.push(method);
          return original?.call(this, restoreId);
        });
      }
    }
    vi.spyOn(AccessControl.prototype, "stepRestore").mockRejectedValue(new Error("the Worker is gone"));
    const answer = restore(bytes);
    await vi.waitFor(
      async () => {
        await runDurableObjectAlarm(env.ACCESS_CONTROL.getByName("main")).catch(() => false);
        expect(order.filter((method) => method === "release")).toHaveLength(5);
      },
      { interval: 20 },
    );
    expect(order.lastIndexOf("swap")).toBeLessThan(order.indexOf("release"));
    await works();
    vi.restoreAllMocks();
    await answer.catch(() => null);
  });
});
