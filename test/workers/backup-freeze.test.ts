import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { QUIESCE_MS } from "../../src/platform/durable/snapshot/frozen.ts";
import { SNAPSHOT_TIMEOUT_MS } from "../../src/platform/durable/snapshot/snapshot-lock.ts";
import { storedObject } from "../../src/rpc/stored-objects.ts";
import { kvStore, nodeSession } from "../../src/rpc/stubs.ts";
import { AccessControl, ClusterRegistry, CredentialEngine, KvStore } from "../../src/worker.ts";
import { holderOf, path } from "./access.ts";
import { allObjects, loseEverything, restore, rowsOf, snapshot } from "./backup-world.ts";
import { get, mountKv, put, send } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { dynamicRole, mountEngine, openTenant, succeeded, writeRole } from "./engine-helpers.ts";
import { evictObject } from "./evict-all.ts";
import { done, operation, outcomes, ScriptedAgent } from "./scripted-agent.ts";
import { eventually, makeDestination, objects, setAssociation, write } from "./sync-helpers.ts";

clock.moves = true;
afterEach(() => void vi.restoreAllMocks());

/** Keeps frozen objects frozen until it is released. */
function heldFrozen() {
  let [reached, goesOn] = [false, false];
  const prototype = ClusterRegistry.prototype as unknown as Record<"known", (after: string) => unknown>;
  const { known } = prototype;
  vi.spyOn(prototype, "known").mockImplementation(async function (this: ClusterRegistry, after) {
    // Before that, all objects are prepared and still serve requests.
    if (!(this as unknown as { isFrozen: boolean }).isFrozen) return known.call(this, after);
    reached = true;
    // Looked at now and then: a promise of another object's must not be waited for.
    while (!goesOn) await scheduler.wait(10);
    return known.call(this, after);
  });
  return {
    reached: () => vi.waitFor(() => expect(reached).toBe(true)),
    goOn: () => {
      goesOn = true;
    },
  };
}

const begin = () => exports.default.fetch("https://x/v1/sys/snapshot", { headers: { "X-Orch-Token": "root" } });
const cutTables = async () => Object.keys(await rowsOf(await allObjects())).filter((name) => name.includes("cut:"));

/** Lets an object's clock move on by so much, and its alarm ring. */
async function later(ms: number, stub: DurableObjectStub): Promise<void> {
  const now = Date.now() + ms;
  vi.spyOn(Date, "now").mockImplementation(() => now);
  await runDurableObjectAlarm(stub);
  vi.mocked(Date.now).mockRestore();
}

describe("during the start of a snapshot", () => {
  it("reads succeed, writes return a retry after one second, and then succeed", async () => {
    await mountKv();
    await write("a", { v: 1 });
    const frozen = heldFrozen();
    const taking = snapshot();
    await frozen.reached();
    // A mount's own object is frozen once it is found; who decides on mounts already is.
    const refused = await put("/v1/sys/mounts/more", { type: "kv", options: { version: "2" } });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(refused.body.errors).toEqual(["a snapshot is being taken; try again in a moment"]);
    expect((await put("/v1/namespace/n", { Name: "n" })).status).toBe(503);
    expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ v: 1 });
    expect((await get("/v1/nodes")).status).toBe(200);
    frozen.goOn();
    await taking;
    expect((await put("/v1/sys/mounts/more", { type: "kv", options: { version: "2" } })).status).toBe(204);
  });

  it("no other one begins while the objects are prepared, however long that takes", async () => {
    for (const at of ["a", "b", "c", "d"]) await mountKv(at);
    const ahead = new ShiftedClock();
    const { prepareCut } = KvStore.prototype;
    vi.spyOn(KvStore.prototype, "prepareCut").mockImplementation(function (this: KvStore, id) {
      ahead.advance(20_000);
      return prepareCut.call(this, id);
    });
    const { freeze } = AccessControl.prototype;
    let other: unknown;
    vi.spyOn(AccessControl.prototype, "freeze").mockImplementationOnce(function (this: AccessControl, id) {
      other = this.prepareCut("another");
      return freeze.call(this, id);
    });
    await snapshot();
    expect(other).toMatchObject({ ok: false, message: expect.stringContaining("another snapshot is being taken") });
  });

  it("a result of the cloud is kept until it can be stored", async () => {
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    await writeRole("reader", dynamicRole(tenant));
    const engine = storedObject(env, { kind: "credential-engine", name: uuid });
    const turn = CredentialEngine.prototype.poll;
    let turns = 0;
    vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (this: CredentialEngine, ...given) {
      turns++;
      if (turns === 2) this.freeze("s");
      return turn.apply(this, given);
    });
    const before = (await tenant.everything()).applications.length;
    const issued = get("/v1/cloud-b/creds/reader");
    await vi.waitFor(() => expect(turns).toBeGreaterThan(2));
    await engine.thaw("s");
    succeeded(await issued);
    expect((await tenant.everything()).applications.length).toBe(before + 1);
    await engine.endCut("s");
  });

  it("messages of agents are processed in order after the object resumes", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    const { told } = outcomes();
    const asked = [operation(), operation()];
    for (const each of asked) await nodeSession(env, agent.node).start(each);
    await socket.seen("req", 2);
    const session = storedObject(env, { kind: "node-session", name: agent.node });
    await session.freeze("s");
    for (const { id } of asked) socket.send(done(id));
    await scheduler.wait(100);
    expect(told).toEqual([]);
    await session.thaw("s");
    await eventually(() => expect(told.map(([, id]) => id)).toEqual(asked.map(({ id }) => id)));
    await session.endCut("s");
  });
});

it("messages of agents are processed after ten seconds when the snapshot has died", async () => {
  const [agent, socket] = await ScriptedAgent.connected();
  const { told } = outcomes();
  const asked = operation();
  await nodeSession(env, agent.node).start(asked);
  await socket.seen("req", 1);
  const session = storedObject(env, { kind: "node-session", name: agent.node });
  await session.freeze("dead");
  socket.send(done(asked.id));
  await scheduler.wait(100);
  expect(told).toEqual([]);
  const stub = session as unknown as DurableObjectStub;
  const alarm = await runInDurableObject(stub, (_object, { storage }) => storage.getAlarm());
  expect(alarm).toBeLessThanOrEqual(Date.now() + QUIESCE_MS);
  await later(QUIESCE_MS + 1, stub);
  await eventually(() => expect(told.map(([, id]) => id)).toEqual([asked.id]));
  await session.endCut("dead");
});

describe("a snapshot", () => {
  it("has one point in time: later writes, changes and deletions are not in it", async () => {
    await mountKv();
    await makeDestination("in-mem", "m");
    for (let n = 0; n < 20; n++) await write(`s${n}`, { v: "before", text: "x".repeat(50_000) });
    await setAssociation("in-mem/m", "s1");
    const before = await objects("m");
    const reader = (await begin()).body?.getReader();
    const pieces = [(await reader?.read())?.value ?? new Uint8Array()];
    for (let n = 0; n < 20; n++) {
      if (n % 2 === 0) await write(`s${n}`, { v: "after" });
      else await send("DELETE", `/v1/kv/metadata/s${n}`);
    }
    await write("new", { v: "after" });
    await makeDestination("in-mem", "late");
    await mountKv("late");
    for (let piece = await reader?.read(); piece?.value; piece = await reader?.read()) pieces.push(piece.value);
    expect(await cutTables()).toEqual([]);

    await loseEverything();
    expect((await restore(Buffer.concat(pieces))).status).toBe(200);
    for (let n = 0; n < 20; n++) expect((await get(`/v1/kv/data/s${n}`)).body.data.data.v).toBe("before");
    expect((await get("/v1/kv/data/new")).status).toBe(404);
    expect((await get("/v1/sys/mounts/late")).status).toBe(400);
    expect((await get("/sys/sync/destinations/in-mem/late")).status).toBe(404);
    expect(await objects("m")).toEqual(before);
  });

  it("is exclusive, and the next one may start once the client of the previous has disconnected", async () => {
    await mountKv();
    const first = await begin();
    const second = await begin();
    expect([second.status, await second.json()]).toEqual([
      409,
      { errors: ["another snapshot is being taken, or has died less than 60 seconds ago"] },
    ]);
    await first.body?.cancel();
    await eventually(async () => expect(await cutTables()).toEqual([]));
    await snapshot();
  });

  it("leaves nothing when only its headers are requested", async () => {
    await mountKv();
    expect((await send("HEAD", "/v1/sys/snapshot")).status).toBe(200);
    await eventually(async () => expect(await cutTables()).toEqual([]));
  });

  it("whose Worker crashed releases the objects: writes after ten seconds, shadow data after an hour", async () => {
    const { uuid } = await mountKv();
    await write("a", { v: 1 });
    const stub = env.KV_STORE.getByName(uuid) as unknown as DurableObjectStub<KvStore>;
    await storedObject(env, { kind: "kv-store", name: uuid }).freeze("dead");
    expect((await put("/v1/kv/data/a", { data: { v: 2 } })).status).toBe(503);
    const alarm = () => runInDurableObject(stub, (_object, { storage }) => storage.getAlarm());
    expect(await alarm()).toBeLessThanOrEqual(Date.now() + SNAPSHOT_TIMEOUT_MS);
    await later(QUIESCE_MS + 1, stub);
    expect(
      await kvStore(env, uuid)
        .watch("a", "in-mem/none")
        .catch(() => "frozen"),
    ).toBe("frozen");
    vi.spyOn(Date, "now").mockImplementation(() => performance.timeOrigin + performance.now() + QUIESCE_MS + 2_000);
    expect((await put("/v1/kv/data/a", { data: { v: 2 } })).status).toBe(200);
    vi.restoreAllMocks();
    expect((await cutTables()).length).toBeGreaterThan(0);
    await later(SNAPSHOT_TIMEOUT_MS + 1_000, stub);
    expect(await cutTables()).toEqual([]);
  });

  it("fails when an object cannot quiesce in time, and releases all of them", async () => {
    await mountKv();
    const frozen = heldFrozen();
    const taking = begin();
    await frozen.reached();
    const real = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => real() + QUIESCE_MS);
    frozen.goOn();
    const refused = await taking;
    expect(refused.status).toBe(503);
    expect(await refused.text()).toContain("not all objects came to rest in time");
    vi.restoreAllMocks();
    expect(await cutTables()).toEqual([]);
    await write("a", { v: 1 });
    await snapshot();
  });

  it("fails when an object restarts while all are frozen, and releases all of them", async () => {
    await mountKv();
    const frozen = heldFrozen();
    const taking = begin();
    await frozen.reached();
    await evictObject(storedObject(env, { kind: "sync-control", name: "main" }) as unknown as DurableObjectStub);
    frozen.goOn();
    const refused = await taking;
    expect(refused.status).toBe(503);
    expect(await refused.text()).toContain("an object restarted while all were at rest");
    vi.restoreAllMocks();
    expect(await cutTables()).toEqual([]);
    await write("a", { v: 1 });
    await snapshot();
  });

  it("returns 403 without sudo, and in a namespace", async () => {
    const reader = await holderOf(path("sys/snapshot", "read", "update", "delete"));
    const options = { token: reader.client_token };
    for (const method of ["GET", "POST", "DELETE"]) {
      const refused = await send(method, "/v1/sys/snapshot", undefined, options);
      expect([method, refused.status, refused.body.errors]).toEqual([method, 403, ["permission denied: needs sudo"]]);
    }
    const sudo = await holderOf(path("sys/snapshot", "read", "sudo"));
    expect((await send("GET", "/v1/sys/snapshot", undefined, { token: sudo.client_token })).status).toBe(200);
    await put("/v1/sys/namespaces/team", {});
    const elsewhere = await get("/v1/sys/snapshot", { headers: { "X-Orch-Namespace": "team" } });
    expect([elsewhere.status, elsewhere.body.errors]).toEqual([400, ["operation unavailable in namespaces"]]);
  });
});
