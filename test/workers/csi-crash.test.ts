import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Operation } from "../../src/contracts/node-operation.ts";
import type { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { NodeSession } from "../../src/objects/node-session.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { eventsOf } from "./access.ts";
import { del, get } from "./client.ts";
import { clock } from "./clock.ts";
import { addCsiNode, controllers, create, csi, openCsi } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";
import { byItself, killRegistry } from "./host-volumes-world.ts";

clock.moves = true;

beforeEach(openCsi);

const listed = async (): Promise<string[]> =>
  (await get("/v1/volumes?type=csi")).body.map(({ ID }: { ID: string }) => ID);

/** The stream and the list agree, and so do provider and list; nothing is under way. */
const settled = (ids: readonly string[]) => async () => {
  expect(await listed()).toEqual(ids);
  expect(csi.disks.size).toBe(ids.length);
  const events = await eventsOf("CSIVolume");
  const live = Map.groupBy(events, ({ Key }) => Key as string);
  expect([...live].filter(([, told]) => told.at(-1).Type === "CSIVolumeRegistered").map(([id]) => id)).toEqual(ids);
};

describe("an operation of a CSI plugin survives a crash of the registry", () => {
  it("while its plugin runs it: the waiting caller is answered", async () => {
    csi.behave = () => "hold";
    const making = create({ Secrets: { a: "1" } });
    await expect.poll(() => csi.holding).toBe(1);
    await killRegistry();
    await csi.release();
    expect((await making).status).toBe(200);
    await settled(["v1"])();
  });

  it("before it is sent: it is sent automatically", async () => {
    let died = false;
    csi.behave = () => {
      if (died) return "work";
      died = true;
      void killRegistry();
      return { ok: false, reason: "faulty", message: "cut off" };
    };
    await create({ Secrets: { a: "1" } }).catch(() => undefined);
    csi.behave = () => "work";
    const again = await create({ Secrets: { a: "1" } });
    expect(again.status, again.text).toBe(200);
    await byItself(settled(["v1"]));
    expect(csi.sent.filter(({ operation }) => operation.secrets?.["a"] !== "1")).toEqual([]);
  });

  it("while it is queued: operations keep their order", async () => {
    await create({ ID: "a", Name: "a" });
    await create({ ID: "b", Name: "b" });
    csi.behave = () => "hold";
    const first = del("/v1/volume/csi/a/delete");
    await expect.poll(() => csi.holding).toBe(1);
    const second = del("/v1/volume/csi/b/delete");
    await scheduler.wait(50);
    await killRegistry();
    csi.behave = () => "work";
    await csi.release();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await byItself(settled([]));
  });

  it("and its result counts once when it is reported twice", async () => {
    csi.behave = () => "hold";
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    const { node, operation } = csi.sent[0] ?? expect.fail();
    const result = csi.work(operation);
    await csi.tell(node, operation.id, result);
    await killRegistry();
    await csi.tell(node, operation.id, result);
    // The caller gets the result or, when the answer was cut off twice, a 503 that asks it to retry.
    expect([200, 503]).toContain((await making).status);
    await byItself(settled(["v1"]));
    expect(await eventsOf("CSIVolume")).toHaveLength(1);
  });
});

it("an operation that is queued for two minutes is refused, and never sent", async () => {
  await create({ ID: "a", Name: "a" });
  await create({ ID: "b", Name: "b" });
  csi.behave = () => "hold";
  const first = del("/v1/volume/csi/a/delete");
  await expect.poll(() => csi.holding).toBe(1);
  const second = del("/v1/volume/csi/b/delete");
  await expect
    .poll(async () => (await get("/v1/volume/csi/b/operations")).body[0])
    .toMatchObject({ Method: "csi.controller.delete", State: "queued" });
  const real = Date.now.bind(Date);
  const now = vi.spyOn(Date, "now").mockImplementation(() => real() + 121_000);
  await runDurableObjectAlarm(env.CLUSTER_REGISTRY.getByName("main"));
  now.mockRestore();
  expect([(await second).status, (await second).text]).toEqual([
    504,
    "the plugin had too much to do for others: nothing was changed",
  ]);
  await csi.release();
  expect((await first).status).toBe(200);
  expect(csi.asked).toEqual(["create", "create", "delete"]);
  await settled(["b"])();
});

describe("an operation whose node is lost", () => {
  /** Creates a volume by node 2, while node 1, which was sent the creation first, has not completed it. */
  async function createdByTheSecond(): Promise<void> {
    await addCsiNode(2);
    csi.behave = (_operation, node) => (node === nodeId(1) ? "hold" : "work");
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    await clusterRegistry(env).registerNode(nodeId(1), controllers({}, { Healthy: false }));
    expect((await making).status).toBe(200);
  }

  it("moves to another controller when the node is removed", async () => {
    await addCsiNode(2);
    csi.behave = (_operation, node) => (node === nodeId(1) ? "hold" : "work");
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    await clusterRegistry(env).purgeNode(nodeId(1), true);
    expect((await making).status).toBe(200);
    expect(csi.sent.map(({ node }) => node)).toEqual([nodeId(1), nodeId(2)]);
  });

  it("moves to another controller when the node is away, and its first success counts", async () => {
    await addCsiNode(2);
    csi.behave = () => "hold";
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    const { operation } = csi.sent[0] ?? expect.fail();
    await clusterRegistry(env).nodeLost(nodeId(1));
    await expect.poll(() => csi.sent.map(({ node }) => node)).toEqual([nodeId(1), nodeId(2)]);
    await csi.tell(nodeId(1), operation.id, csi.work(operation));
    expect((await making).status).toBe(200);
    await csi.release();
    await settled(["v1"])();
  });

  it("moves to another controller when its plugin hangs and is reported unhealthy", async () => {
    await createdByTheSecond();
    expect(csi.sent.map(({ node }) => node)).toEqual([nodeId(1), nodeId(2)]);
    await csi.release();
    await settled(["v1"])();
  });

  it.each([
    ["deleted", "delete", "delete", []],
    ["deregistered", "", "nothing", ["vol-one"]],
  ])(
    "keeps changes of users at the provider: a volume %s before the first controller completes",
    async (_how, path, then, left) => {
      await createdByTheSecond();
      expect((await del(`/v1/volume/csi/v1${path && `/${path}`}`)).status).toBe(200);
      csi.behave = () => "work";
      await csi.release();
      await expect.poll(() => [...csi.disks.keys()]).toEqual(left);
      const after = csi.sent.slice(then === "delete" ? 3 : 2).map(({ operation: { method } }) => method);
      expect(after).toEqual(then === "delete" ? ["csi.controller.delete"] : []);
    },
  );

  describe("and whose volume was deleted and is created again", () => {
    /** The first creation, which node 1 has not completed; its volume was created by node 2, and deleted. */
    async function lateCreation(): Promise<Operation> {
      await createdByTheSecond();
      expect((await del("/v1/volume/csi/v1/delete")).status).toBe(200);
      return csi.sent[0]?.operation ?? expect.fail();
    }
    /** Sends the result once. @returns the failure, with which the node sends it again */
    const late = (operation: Operation, result = csi.work(operation)) =>
      runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (registry: ClusterRegistry) =>
        registry.operationDone(nodeId(1), operation.id, result).then(() => null, String),
      );

    it.each([
      ["another controller", 2, expect.stringContaining("has not ended yet")],
      ["its controller", 1, null],
    ])("does not delete the new volume when its result comes while %s creates it", async (_who, by, refusal) => {
      const operation = await lateCreation();
      csi.behave = () => "hold";
      for (const each of [1, 2])
        await clusterRegistry(env).registerNode(nodeId(each), controllers({}, { Healthy: each === by }));
      const making = create();
      await expect.poll(() => csi.asked).toEqual(["create", "create", "delete", "create"]);
      expect(await late(operation)).toEqual(refusal);
      const { node, operation: second } = csi.sent[3] ?? expect.fail();
      await csi.tell(node, second.id, csi.work(second));
      expect((await making).status).toBe(200);
      expect(await late(operation)).toBeNull();
      await settled(["v1"])();
      expect(csi.asked).toEqual(["create", "create", "delete", "create"]);
    });

    it("keeps the new volume when it created another one at the provider", async () => {
      const operation = await lateCreation();
      expect((await create()).status).toBe(200);
      csi.behave = () => "work";
      csi.disks.set("second", { externalId: "ext-second", capacityBytes: 1 });
      const made = csi.work(operation);
      if (made.state !== "done") expect.fail();
      expect(await late(operation, { ...made, result: { ...made.result, externalId: "ext-second" } })).toBeNull();
      await expect.poll(() => [...csi.disks.keys()]).toEqual(["vol-one"]);
      await settled(["v1"])();
    });
  });

  it("is repeated at once when its hung plugin is healthy again", async () => {
    csi.behave = () => "hold";
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    const { node, operation } = csi.sent[0] ?? expect.fail();
    await csi.tell(node, operation.id, { state: "unknown", error: { kind: "unavailable", message: "gone" } });
    const asked = () => vi.mocked(NodeSession.prototype.start).mock.calls.map(([{ id }]) => id);
    for (const Healthy of [false, false, true]) {
      expect(asked()).toEqual([operation.id]);
      await clusterRegistry(env).registerNode(nodeId(1), controllers({}, { Healthy }));
    }
    await expect.poll(asked).toEqual([operation.id, operation.id]);
    await csi.release();
    expect((await making).status).toBe(200);
    await settled(["v1"])();
  });

  it("is refused without another controller, and its late success still counts", async () => {
    csi.behave = () => "hold";
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    await clusterRegistry(env).purgeNode(nodeId(1), true);
    expect((await making).status).toBe(503);
    await csi.release();
    await settled(["v1"])();
  });

  it("waits for the node that may have performed it, when no other controller accepts it", async () => {
    await addCsiNode(2);
    csi.behave = (_operation, node) =>
      node === nodeId(2) ? { ok: false, reason: "unavailable", message: "away" } : "hold";
    const making = create();
    await expect.poll(() => csi.holding).toBe(1);
    const { node, operation } = csi.sent[0] ?? expect.fail();
    await csi.tell(node, operation.id, { state: "unknown", error: { kind: "timeout", message: "silent" } });
    await expect
      .poll(async () => (await get("/v1/volume/csi/v1/operations")).body[0])
      .toMatchObject({ State: "unknown", NodeID: nodeId(1), NodesAsked: [nodeId(1), nodeId(2)] });
    await csi.tell(node, operation.id, { state: "failed", error: { kind: "exhausted", message: "full" } });
    expect((await making).text).toBe("controller create volume: full");
  });

  it("ignores the failure of an earlier node and results of other nodes", async () => {
    await addCsiNode(2);
    csi.behave = () => "hold";
    const making = create();
    await expect.poll(() => csi.sent.length).toBe(1);
    const { operation } = csi.sent[0] ?? expect.fail();
    await csi.tell(nodeId(1), operation.id, { state: "unknown", error: { kind: "timeout", message: "silent" } });
    await expect.poll(() => csi.sent.length).toBe(2);
    await csi.tell(nodeId(1), operation.id, { state: "failed", error: { kind: "exhausted", message: "full" } });
    await csi.tell(nodeId(3), operation.id, {
      state: "done",
      result: { externalId: "stolen", capacityBytes: 0, context: {}, topologies: [] },
    });
    expect((await get("/v1/volume/csi/v1/operations")).body[0]).toMatchObject({ State: "unknown", NodeID: nodeId(2) });
    await csi.release();
    const made = await making;
    expect([made.status, made.text.includes("stolen")]).toEqual([200, false]);
  });

  describe("whose outcome was given up", () => {
    const givenUp = { state: "given-up", error: { kind: "timeout", message: "given up" } } as const;

    it("moves to another controller, and ends when there is none", async () => {
      await addCsiNode(2);
      csi.behave = () => "hold";
      const making = create();
      for (const number of [1, 2]) {
        await expect.poll(() => csi.sent.length).toBe(number);
        await csi.tell(nodeId(number), csi.sent[0]?.operation.id ?? "", givenUp);
      }
      const { status, text } = await making;
      expect([status, text]).toEqual([504, "controller create volume: given up"]);
      csi.behave = () => "work";
      expect((await create()).status).toBe(200);
      await settled(["v1"])();
    });

    it("allows another deletion of the volume", async () => {
      await create();
      csi.behave = () => "hold";
      const deleting = del("/v1/volume/csi/v1/delete");
      await expect.poll(() => csi.holding).toBe(1);
      const { node, operation } = csi.sent[1] ?? expect.fail();
      await csi.tell(node, operation.id, { state: "unknown", error: { kind: "timeout", message: "silent" } });
      await csi.tell(node, operation.id, givenUp);
      expect((await deleting).status).toBe(504);
      csi.behave = () => "work";
      expect((await del("/v1/volume/csi/v1/delete")).status).toBe(200);
      await settled([])();
    });
  });
});
