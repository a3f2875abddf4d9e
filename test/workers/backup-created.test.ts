import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { destinationName } from "../../src/rpc/destination-name.ts";
import { storedObject } from "../../src/rpc/stored-objects.ts";
import { AccessControl, ClusterRegistry, KvStore } from "../../src/worker.ts";
import { allObjects, listed, loseEverything, restore, snapshot } from "./backup-world.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { eventually, setAssociation } from "./sync-helpers.ts";

clock.moves = true;
afterEach(() => void vi.restoreAllMocks());

const SNAPSHOTS = 2;
const kv = { type: "kv", options: { version: "2" } };

/** Repeats a request after `Retry-After`. */
async function patiently(ask: () => Promise<Answer>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    const { status, text } = await ask();
    if (status < 300) return;
    expect([status, text]).toEqual([503, expect.stringContaining("a snapshot is being taken")]);
    await scheduler.wait(20);
  }
}

/** Creates objects one after the other until it is stopped. @returns the acknowledged ones */
function creating(create: (number: number) => Promise<void>) {
  let [goesOn, made] = [true, 0];
  const running = (async () => {
    while (goesOn) {
      await create(made);
      made++;
      await scheduler.wait(20);
    }
  })();
  return {
    made: () => made,
    stop: async () => {
      goesOn = false;
      await running;
    },
  };
}

/** The destinations that KV stores notify. */
async function watchers(): Promise<string[]> {
  const found: string[] = [];
  for (const object of await allObjects()) {
    if (object.kind !== "kv-store") continue;
    const stub = storedObject(env, object) as unknown as DurableObjectStub;
    await runInDurableObject(stub, (_object, { storage: { sql } }) => {
      for (const { destination } of sql.exec<{ destination: string }>("SELECT destination FROM watchers").toArray())
        found.push(destination);
    });
  }
  return found;
}

async function namesInList(): Promise<string[]> {
  const [rows = []] = await listed();
  return rows.map((row) => destinationName(row as never));
}

it("a snapshot contains everything acknowledged before it began, and nothing half created", async () => {
  await put("/v1/sys/mounts/kv", kv);
  await put("/v1/kv/data/shared", { data: { v: 1 } });
  const destinations = creating(async (n) => {
    await patiently(() => put(`/sys/sync/destinations/in-mem/d${n}`, {}));
    await patiently(() => setAssociation(`in-mem/d${n}`, "shared"));
    if (n % 3 === 2) await patiently(() => del(`/sys/sync/destinations/in-mem/d${n - 1}?purge=true&force_delete=true`));
  });
  const mounts = creating(async (n) => {
    await patiently(() => put(`/v1/sys/mounts/m${n}`, kv));
    await patiently(() => put(`/v1/m${n}/data/s`, { data: { n } }));
    await patiently(() => put(`/v1/sys/mounts/e${n}`, { type: "cloud-b" }));
    await patiently(() => put(`/v1/namespace/n${n}`, {}));
  });
  let last: { file: Uint8Array; destinations: number; mounts: number } = {
    file: new Uint8Array(),
    destinations: 0,
    mounts: 0,
  };
  try {
    for (let snapshots = 0; snapshots < SNAPSHOTS; snapshots++) {
      while (Math.min(destinations.made(), mounts.made()) <= snapshots * 3) await scheduler.wait(10);
      const before = { destinations: destinations.made(), mounts: mounts.made() };
      last = { file: await snapshot(), ...before };
    }
  } finally {
    await Promise.all([destinations.stop(), mounts.stop()]);
  }

  // Background work of the old deployment must not reach into the new one: its lists are complete first.
  const made = Array.from({ length: destinations.made() }, (_, n) => n);
  const left = made.filter((n) => n % 3 !== 1 || n + 1 === made.length).map((n) => `in-mem/d${n}`);
  await eventually(async () => expect((await namesInList()).sort()).toEqual(left.sort()));
  await scheduler.wait(1_000);
  await loseEverything();
  await loseEverything();
  const restored = await restore(last.file);
  expect(restored.status, restored.text).toBe(200);
  expect(last.destinations).toBeGreaterThan(0);
  for (let n = 0; n < last.destinations; n++) {
    if (n % 3 === 1) continue;
    const { status, text } = await get(`/sys/sync/destinations/in-mem/d${n}/associations`);
    expect([n, status, text]).toEqual([n, 200, expect.stringContaining('"shared"')]);
  }
  for (let n = 0; n < last.mounts; n++) {
    expect((await get(`/v1/m${n}/data/s`)).body.data.data).toEqual({ n });
    expect((await get(`/v1/sys/mounts/e${n}`)).status).toBe(200);
    expect((await get(`/v1/namespace/n${n}`)).status).toBe(200);
  }
  const [inList = [], associated = []] = await listed();
  const names = await namesInList();
  for (const row of inList)
    expect((await get(`/sys/sync/destinations/${row["type"]}/${row["name"]}`)).status).toBe(200);
  for (const row of associated) expect(names).toContain(destinationName(row as never));
  for (const destination of await watchers()) expect(names).toContain(destination);
}, 180_000);

describe("during the start of a snapshot", () => {
  it("a destination is either not created, or part of the snapshot", async () => {
    await put("/v1/sys/mounts/kv", kv);
    await put("/v1/kv/data/shared", { data: { v: 1 } });
    const prototype = ClusterRegistry.prototype as unknown as Record<"known", (after: string) => unknown>;
    const { known } = prototype;
    const answers: number[] = [];
    // All that know of others are frozen by now.
    vi.spyOn(prototype, "known").mockImplementation(async function (this: ClusterRegistry, after) {
      const { isFrozen } = this as unknown as { isFrozen: boolean };
      if (!isFrozen) answers.push((await put("/sys/sync/destinations/in-mem/early", {})).status);
      if (!isFrozen) return known.call(this, after);
      answers.push((await put("/sys/sync/destinations/in-mem/late", {})).status);
      answers.push((await get("/sys/sync/destinations/in-mem/late")).status);
      return known.call(this, after);
    });
    const file = await snapshot();
    // Once a page.
    expect([...new Set(answers)]).toEqual([200, 503, 404]);
    vi.restoreAllMocks();
    await patiently(() => put("/sys/sync/destinations/in-mem/late", {}));
    await loseEverything();
    await restore(file);
    expect((await get("/sys/sync/destinations/in-mem/early")).status).toBe(200);
    expect((await get("/sys/sync/destinations/in-mem/late")).status).toBe(404);
  });
});

it("a destination whose creation failed does not block the deletion of its namespace", async () => {
  await put("/v1/sys/namespaces/team", {});
  const there = { headers: { "X-Orch-Namespace": "team" } };
  const prototype = AccessControl.prototype as unknown as Record<"admitDestination", (...given: unknown[]) => unknown>;
  const { admitDestination } = prototype;
  const spy = vi.spyOn(prototype, "admitDestination").mockImplementationOnce(function (this: unknown, ...given) {
    admitDestination.apply(this, given);
    throw new Error("the answer was lost");
  });
  expect((await put("/sys/sync/destinations/in-mem/d", {}, there)).status).toBe(500);
  spy.mockRestore();
  expect((await del("/v1/sys/namespaces/team")).status).toBe(400);
  await eventually(async () => expect((await del("/v1/sys/namespaces/team")).status).toBeLessThan(300));
});

it("a deleted destination is part of snapshots until its mounts are notified", async () => {
  await put("/v1/sys/mounts/kv", kv);
  await put("/v1/kv/data/shared", { data: { v: 1 } });
  await put("/sys/sync/destinations/in-mem/d", {});
  await setAssociation("in-mem/d", "shared");
  const isKnown = async () => (await allObjects()).some(({ kind }) => kind === "sync-destination");
  const unwatch = vi.spyOn(KvStore.prototype, "unwatch").mockImplementation(() => {
    throw new Error("not now");
  });
  await del("/sys/sync/destinations/in-mem/d?purge=true&force_delete=true");
  await eventually(async () => expect((await get("/sys/sync/destinations/in-mem/d")).status).toBe(404));
  expect([await isKnown(), await watchers()]).toEqual([true, ["in-mem/d"]]);
  unwatch.mockRestore();
  await eventually(async () => expect([await isKnown(), await watchers()]).toEqual([false, []]));
});
