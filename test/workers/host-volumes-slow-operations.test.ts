import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { EventLog } from "../../src/objects/event-log.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { eventsOf } from "./access.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { ask, listed, lose, make, nodeId, nodes, openNodes } from "./host-volumes.ts";

clock.moves = true;

/*
 * Requests whose operation takes its time: the answer comes late, never, or twice, and the request comes again meanwhile.
 */

beforeEach(() => openNodes(1, 2));

/** Waits until a node has been given something that it keeps to itself. */
const holding = (count = 1) => vi.waitFor(() => expect(nodes.holding).toBe(count));

type Decision = "createHostVolume" | "registerHostVolume" | "updateHostVolume" | "deleteHostVolume";

/** Sends requests, and waits until the registry has decided on all of them. */
async function decided(decision: Decision, ...requests: (() => Promise<Answer>)[]): Promise<Promise<Answer>[]> {
  const spy = vi.spyOn(ClusterRegistry.prototype, decision);
  const before = spy.mock.results.length;
  const asked = requests.map((request) => request());
  const count = () => expect(spy.mock.results.length - before).toBeGreaterThanOrEqual(requests.length);
  await vi.waitFor(count);
  return asked;
}

/** So much time passes that every request gives up. */
function letTimePass(): void {
  const real = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => real() + 100_000);
}

const running = () =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
    storage.sql
      .exec<{ id: string; state: string }>("SELECT id, state FROM volume_operations ORDER BY id")
      .toArray()
      .filter(({ state }) => state === "running")
      .map(({ id }) => id),
  );

const kill = async () => {
  const died = runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, state) => state.abort("killed"));
  await died.catch(() => undefined);
};

describe("an operation that exceeds the request time", () => {
  beforeEach(() => {
    nodes.behave = () => "hold";
  });

  it("returns 504 with its id, and still creates the volume when it completes", async () => {
    const asked = ask();
    await holding();
    const [operation] = await running();
    letTimePass();
    const answer = await asked;
    expect([answer.status, answer.text]).toEqual([
      504,
      `operation ${operation} has not ended in time: it goes on, and the same request waits for it again`,
    ]);
    expect(await listed()).toEqual([]);
    await nodes.release();
    expect(await listed()).toMatchObject([{ Name: "db", NodeID: nodeId(1) }]);
    expect(await eventsOf("HostVolume")).toHaveLength(1);
  });

  it("is awaited by a repetition of the request, which creates no second volume", async () => {
    const asked = ask();
    await holding();
    letTimePass();
    expect((await asked).status).toBe(504);
    const again = await decided("createHostVolume", () => ask());
    await nodes.release();
    expect((await again[0])?.body.Volume).toMatchObject({ Name: "db", NodeID: nodeId(1) });
    expect(nodes.sent).toHaveLength(1);
    expect(await listed()).toHaveLength(1);
  });

  it("is not awaited by another request, nor by the same one of another caller", async () => {
    const asked = ask();
    await holding();
    letTimePass();
    await asked;
    nodes.behave = () => "work";
    expect((await make({ Parameters: { mode: "0700" } })).NodeID).toBe(nodeId(2));
    await nodes.release();
    expect(await listed()).toHaveLength(2);
  });

  it("blocks other changes of the volume with an error", async () => {
    nodes.behave = () => "work";
    const { ID } = await make();
    nodes.behave = () => "hold";
    const updating = ask({ ID, Name: "renamed" });
    await holding();
    const other = await decided("deleteHostVolume", () => del(`/v1/volume/host/${ID}`));
    const [operation] = await running();
    letTimePass();
    expect((await updating).status).toBe(504);
    const deleting = await other[0];
    expect([deleting?.status, deleting?.text]).toEqual([
      504,
      `operation ${operation} on this volume has not ended yet; nothing was changed`,
    ]);
    await nodes.release();
    expect((await get(`/v1/volume/host/${ID}`)).body.Name).toBe("renamed");
  });

  it("is dropped with the volume by a forced deletion when the node is lost", async () => {
    nodes.behave = () => "work";
    const { ID } = await make();
    nodes.behave = () => "hold";
    const updating = ask({ ID, Name: "renamed" });
    await holding();
    await lose(nodeId(1));
    expect((await del(`/v1/volume/host/${ID}?force=true`)).status).toBe(200);
    expect([(await updating).status, (await updating).text]).toEqual([
      409,
      `volume ${ID} was deleted without its node`,
    ]);
    await nodes.release();
    expect(await listed()).toEqual([]);
    expect((await eventsOf("HostVolume")).map(({ Type }) => Type)).toEqual([
      "HostVolumeRegistered",
      "NodeEvent",
      "HostVolumeDeleted",
    ]);
  });
});

describe("a result", () => {
  it("that is repeated counts once", async () => {
    const { ID } = await make();
    const [{ operation } = { operation: { id: "" } }] = nodes.sent;
    const before = (await get(`/v1/volume/host/${ID}`)).body;
    await nodes.tell(nodeId(1), operation.id, { state: "done", result: { path: "/elsewhere", bytes: 7 } });
    await nodes.tell(nodeId(1), operation.id, { state: "failed", error: { kind: "plugin", message: "no" } });
    expect((await get(`/v1/volume/host/${ID}`)).body).toEqual(before);
    expect(await eventsOf("HostVolume")).toHaveLength(1);
  });

  it("is not accepted from another node, nor for an unknown operation", async () => {
    nodes.behave = () => "hold";
    const asked = ask();
    await holding();
    const { operation } = nodes.sent[0] as (typeof nodes.sent)[0];
    const forged = { state: "done", result: { path: "/etc", bytes: 1 } } as const;
    await nodes.tell(nodeId(2), operation.id, forged);
    await nodes.tell(nodeId(1), "0199d1f0-0000-7000-8000-000000000000", forged);
    expect(await listed()).toEqual([]);
    await nodes.release();
    expect((await asked).body.Volume.HostPath).not.toBe("/etc");
  });

  it("that is unknown keeps the volume reserved until it is known", async () => {
    nodes.behave = () => ({ state: "unknown", error: { kind: "timeout", message: "who knows" } });
    const asked = ask();
    await vi.waitFor(() => expect(nodes.sent).toHaveLength(1));
    await scheduler.wait(50);
    expect(await running()).toHaveLength(1);
    nodes.behave = () => "work";
    expect((await make({ Parameters: { mode: "0700" } })).NodeID).toBe(nodeId(2));
    const { operation } = nodes.sent[0] as (typeof nodes.sent)[0];
    await nodes.tell(nodeId(1), operation.id, nodes.work(nodeId(1), operation));
    expect((await asked).body.Volume.NodeID).toBe(nodeId(1));
  });

  it("that is lost and repeated later is processed", async () => {
    nodes.behave = () => "lose-answer";
    const asked = ask();
    await vi.waitFor(() => expect(nodes.sent).toHaveLength(1));
    await scheduler.wait(2_500);
    const { operation } = nodes.sent[0] as (typeof nodes.sent)[0];
    await nodes.tell(nodeId(1), operation.id, nodes.work(nodeId(1), operation));
    expect((await asked).status).toBe(200);
  });
});

describe("a repeated request", () => {
  it("to delete waits for the running deletion", async () => {
    const { ID } = await make();
    nodes.behave = () => "hold";
    const first = del(`/v1/volume/host/${ID}`);
    await holding();
    const second = await decided("deleteHostVolume", () => del(`/v1/volume/host/${ID}`));
    await nodes.release();
    expect([(await first).status, (await first).body]).toEqual([200, (await second[0])?.body]);
    expect(nodes.sent).toHaveLength(2);
  });

  it("to update waits for the running update, and another update for its turn", async () => {
    const { ID } = await make();
    nodes.behave = () => "hold";
    const first = ask({ ID, Name: "one" });
    await holding();
    const wishes = ["one", "two"].map((Name) => () => ask({ ID, Name }));
    const others = await decided("updateHostVolume", ...wishes);
    nodes.behave = () => "work";
    await nodes.release();
    const [same, other] = await Promise.all(others);
    expect([(await first).status, same?.status, other?.body.Volume.Name]).toEqual([200, 200, "two"]);
    expect(nodes.sent.map(({ operation }) => [operation.gen, operation.params["name"]])).toEqual([
      [1, "db"],
      [2, "one"],
      [3, "two"],
    ]);
  });

  it("during the first one is a second request: two volumes on two nodes", async () => {
    nodes.behave = () => "hold";
    const asked = [ask(), ask()];
    await holding(2);
    await nodes.release();
    const made = (await Promise.all(asked)).map((answer: Answer) => answer.body.Volume.NodeID);
    expect(made.sort()).toEqual([nodeId(1), nodeId(2)]);
  });

  it.each([
    ["create", "createHostVolume", { NodeID: nodeId(1) }, 2],
    ["create", "createHostVolume", {}, 1],
    ["register", "registerHostVolume", { NodeID: nodeId(1), HostPath: "/srv/db" }, 2],
  ] as const)(
    "to %s joins the first where there is no room for a second (%s, %j, %i nodes)",
    async (intent, method, fields, count) => {
      if (count === 1) await lose(nodeId(2));
      nodes.behave = () => "hold";
      const request = (more: object = {}) =>
        put(`/v1/volume/host/${intent}`, { Volume: { Name: "db", PluginID: "mkdir", ...fields, ...more } });
      const first = request();
      await holding();
      const second = await decided(method, () => request());
      const other = await request({ Parameters: { mode: "0700" }, NodeID: nodeId(1) });
      expect([other.status, other.text]).toEqual([409, expect.stringContaining("name already exists")]);
      await nodes.release();
      const answers = [await first, await second[0]];
      const [made] = await listed();
      expect(answers.map((answer) => [answer?.status, answer?.body.Volume?.ID])).toEqual([
        [200, made?.ID],
        [200, made?.ID],
      ]);
      expect(nodes.sent).toHaveLength(1);
    },
  );

  it("joins the first at once when its caller has left, whatever other nodes there are", async () => {
    nodes.behave = () => "hold";
    const body = JSON.stringify({ Volume: { Name: "db", PluginID: "mkdir" } });
    const caller = new AbortController();
    const first = exports.default
      .fetch("https://x/v1/volume/host/create", {
        method: "PUT",
        headers: { "X-Orch-Token": "root" },
        body,
        signal: caller.signal,
      })
      .catch((failure: unknown) => failure);
    await holding();
    const left = vi.spyOn(ClusterRegistry.prototype, "leaveVolumeOperation");
    caller.abort();
    expect(await first).toBeInstanceOf(Error);
    await vi.waitFor(() => expect(left).toHaveBeenCalled());
    const again = await decided("createHostVolume", () => ask());
    await nodes.release();
    expect((await again[0])?.body.Volume).toMatchObject({ Name: "db", NodeID: nodeId(1) });
    expect([nodes.sent.length, (await listed()).length]).toEqual([1, 1]);
  });

  it("with a client token is the same request while the token is stored", async () => {
    const create = (IdempotencyToken: string) =>
      put("/v1/volume/host/create", { IdempotencyToken, Volume: { Name: "db", PluginID: "mkdir" } });
    const [a, b] = await Promise.all([create("t1"), create("t1")]);
    const c = await create("t1");
    expect([a.body.Volume.ID, b.body.Volume.ID]).toEqual([c.body.Volume.ID, c.body.Volume.ID]);
    expect((await create("t2")).body.Volume.ID).not.toBe(a.body.Volume.ID);
    expect(nodes.sent).toHaveLength(2);
  });
});

describe("operations of two volumes", () => {
  it("run concurrently, on one node and on two", async () => {
    nodes.behave = ({ params }) => (params["name"] === "slow" ? "hold" : "work");
    const slow = ask({ Name: "slow" });
    await holding();
    expect((await make({ Name: "fast" })).NodeID).toBe(nodeId(1));
    expect((await make({ Name: "fast" })).NodeID).toBe(nodeId(2));
    await nodes.release();
    expect((await slow).status).toBe(200);
  });
});

describe("a crash during a request", () => {
  it("of the registry: the request is still answered", async () => {
    nodes.behave = () => "hold";
    const asked = ask();
    await holding();
    await kill();
    await nodes.release();
    expect((await asked).status).toBe(200);
    expect(await listed()).toHaveLength(1);
  });

  it("of the event log: the response has no index, and the event follows", async () => {
    const append = vi.spyOn(EventLog.prototype, "append").mockRejectedValue(new Error("the log is down"));
    const made = await ask();
    expect([made.status, made.body.Index, made.body.Volume.ModifyIndex]).toEqual([200, 0, 0]);
    append.mockRestore();
    await make({ Name: "next" }).catch(() => undefined);
    await vi.waitFor(async () => expect(await eventsOf("HostVolume")).toHaveLength(2));
    const { ID } = made.body.Volume;
    expect((await get(`/v1/volume/host/${ID}`)).body.ModifyIndex).toBeGreaterThan(0);
  });
});

it("deletes an operation an hour after its end", async () => {
  await make();
  const count = () =>
    runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
      storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM volume_operations").one(),
    );
  expect((await count()).n).toBe(1);
  const real = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => real() + 3_700_000);
  await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (registry) => registry.alarm());
  expect((await count()).n).toBe(0);
  expect(
    await clusterRegistry(env).hostVolumes({ namespace: null, from: ["", ""], limit: 5, reverse: false }),
  ).toMatchObject({
    rows: [{ name: "db" }],
  });
});
