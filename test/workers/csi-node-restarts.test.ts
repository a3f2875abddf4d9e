import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { OperationResult } from "../../src/contracts/node-operation.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { del, get } from "./client.ts";
import { clock } from "./clock.ts";
import { addCsiNodes, claimsOf, create, csi, ends, openCsiNodes, runs, statesOf } from "./csi-world.ts";
import { addNode, lose, nodeId } from "./host-volumes.ts";
import { byItself, killRegistry } from "./host-volumes-world.ts";

/* Mounts of nodes that go away: with their machine, or for long. */

clock.moves = true;

/** It mounts; another one runs the controller. */
const NODE = nodeId(2);
beforeEach(async () => {
  await openCsiNodes();
  await starts("monday");
  expect((await create()).status).toBe(200);
  await runs(NODE);
  await expect.poll(() => statesOf()).toEqual(["published"]);
});

const connect = (node: string) => clusterRegistry(env).nodeConnected(node);
/** The agent is back, in this start of its machine. */
const starts = async (boot: string) => {
  const { Attributes } = (await get(`/v1/node/${NODE}`)).body;
  await clusterRegistry(env).registerNode(NODE, { Attributes: { ...Attributes, "unique.boot": boot } });
  await connect(NODE);
};
const times = (what: string) => csi.asked.filter((each) => each === what).length;
const failed = (message: string): OperationResult => ({ state: "failed", error: { kind: "plugin", message } });

/** It is lost, and does not come back in time. */
async function goDown(node: string): Promise<void> {
  await lose(node);
  const real = Date.now.bind(Date);
  const now = vi.spyOn(Date, "now").mockImplementation(() => real() + 61_000);
  await expect
    .poll(async () => {
      await runDurableObjectAlarm(env.CLUSTER_REGISTRY.getByName("main"));
      return (await get(`/v1/node/${node}`)).body.Status;
    })
    .toBe("down");
  now.mockRestore();
}

describe("a rebooted node", () => {
  it("publishes the volumes of its allocations again, without calls to the controller", async () => {
    await lose(NODE);
    csi.published.clear();
    await starts("tuesday");
    await expect.poll(() => times("node.publish")).toBe(2);
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect([csi.published.size, times("publish"), csi.wrongs]).toEqual([1, 1, []]);
    expect(await claimsOf()).toMatchObject([{ Path: "/mounts/a1", LastError: "" }]);
  });

  it("shows no path until then", async () => {
    csi.behave = ({ method }) => (method === "csi.node.publish" ? failed("not yet") : "work");
    await starts("tuesday");
    await expect.poll(claimsOf).toMatchObject([{ State: "attached", Path: "", LastError: expect.anything() }]);
    csi.behave = () => "work";
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("receives an interrupted publication again", async () => {
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    csi.behave = ({ method }) => (method === "csi.node.publish" ? "hold" : "work");
    await runs(NODE, { alloc: "a2" });
    await expect.poll(() => csi.holding).toBe(1);
    csi.behave = () => "work";
    await starts("tuesday");
    // A late report about the time before the restart.
    await csi.release();
    await expect.poll(() => times("node.publish")).toBe(3);
    await expect.poll(() => statesOf()).toEqual(["published"]);
  });

  it("does not publish for allocations that have ended meanwhile", async () => {
    await lose(NODE);
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual(["unpublishing"]);
    await starts("tuesday");
    await expect.poll(() => statesOf()).toEqual([]);
    expect([times("node.publish"), csi.published.size]).toEqual([1, 0]);
  });
});

it("a node that was away, or whose agent alone has restarted, keeps its publications", async () => {
  await lose(NODE);
  await starts("monday");
  await goDown(NODE);
  await starts("monday");
  await scheduler.wait(100);
  expect([await statesOf(), times("node.publish")]).toEqual([["published"], 1]);
});

describe("a publication on a node that was down, of a deleted claim", () => {
  const leave = async () => {
    csi.lostNodes = true;
    await goDown(NODE);
    await ends(NODE);
    await expect.poll(() => statesOf()).toEqual([]);
    expect([times("node.detach"), csi.published.size]).toEqual([0, 1]);
  };
  const isAway = () => expect([csi.published.size, times("node.detach")]).toEqual([0, 1]);

  it("is removed once when the node is back", async () => {
    await leave();
    await connect(NODE);
    await expect.poll(() => csi.published.size).toBe(0);
    await lose(NODE);
    await connect(NODE);
    await scheduler.wait(100);
    isAway();
  });

  it("is removed although the volume was deleted meanwhile", async () => {
    await leave();
    expect((await del("/v1/volume/csi/v1/delete")).status).toBe(200);
    await connect(NODE);
    await expect.poll(() => csi.published.size).toBe(0);
    const [{ operation }] = csi.sent.slice(-1) as [(typeof csi.sent)[number]];
    expect(operation.params).toEqual({ pluginId: "disk", externalId: "ext-vol-one", allocId: "a1" });
  });

  it("is retried until it is removed, also after a crash of the registry", async () => {
    await leave();
    let tries = 0;
    csi.behave = () => (tries++ < 2 ? failed("busy") : "work");
    await connect(NODE);
    await killRegistry();
    await byItself(async () => expect(csi.published.size).toBe(0));
    expect(times("node.detach")).toBe(3);
  });

  it("waits for its plugin to be healthy", async () => {
    await leave();
    const { CSINodePlugins } = (await get(`/v1/node/${NODE}`)).body;
    const well = (Healthy: boolean) => addNode(2, { CSINodePlugins: { disk: { ...CSINodePlugins.disk, Healthy } } });
    await well(false);
    await scheduler.wait(100);
    expect(times("node.detach")).toBe(0);
    await well(true);
    await expect.poll(() => csi.published.size).toBe(0);
    isAway();
  });

  it("is dropped with a purged node", async () => {
    await leave();
    await clusterRegistry(env).purgeNode(NODE, true);
    await addCsiNodes();
    await scheduler.wait(100);
    expect(times("node.detach")).toBe(0);
  });

  it("stays when its allocation is back and uses it", async () => {
    await leave();
    await runs(NODE);
    csi.behave = ({ method }) => (method === "csi.node.detach" ? failed("busy") : "work");
    await connect(NODE);
    await expect.poll(() => statesOf()).toEqual(["published"]);
    const asked = times("node.detach");
    csi.behave = () => "work";
    // Longer than the pause after a failure.
    await scheduler.wait(1_500);
    expect([csi.published.size, times("node.detach"), await statesOf()]).toEqual([1, asked, ["published"]]);
  });
});
