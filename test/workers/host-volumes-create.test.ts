import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { eventsOf } from "./access.ts";
import { type Answer, get, put } from "./client.ts";
import { addNode, ask, listed, lose, make, nodeId, nodes, openNodes } from "./host-volumes.ts";

const KERNEL = `\${attr.kernel.name}`;

beforeEach(() => openNodes(1));

const refusal = ({ status, text }: Answer) => [status, text];
const nothingStored = async () => expect(await listed()).toEqual([]);

describe("creating a host volume", () => {
  // Proves: D.host.create.endpoint, D.host.read.endpoint, D.rules.6.returned
  it("calls a node's plugin, and returns the stored volume", async () => {
    const made = await ask();
    expect(made.status, made.text).toBe(200);
    const { Volume, Index, Warnings } = made.body;
    expect(Volume).toEqual({
      CapacityBytes: 0,
      CreateIndex: Index,
      CreateTime: expect.any(Number),
      HostPath: `/volumes/${Volume.ID}`,
      ID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      ModifyIndex: Index,
      ModifyTime: expect.any(Number),
      Name: "db",
      Namespace: "default",
      NodeID: nodeId(1),
      NodePool: "default",
      PluginID: "mkdir",
      RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
      RequestedCapacityMaxBytes: 0,
      RequestedCapacityMinBytes: 0,
      State: "pending",
    });
    expect(Volume.CreateTime).toBeGreaterThan(1e18);
    expect([made.headers.get("X-Orch-Index"), Warnings]).toEqual([String(Index), ""]);
    const read = await get(`/v1/volume/host/${Volume.ID}`);
    expect([read.status, read.body, read.headers.get("X-Orch-Index")]).toEqual([200, Volume, String(Index)]);
  });

  it("sends the node all required parameters and no others", async () => {
    const { ID } = await make({
      Parameters: { mode: "0750" },
      RequestedCapacityMinBytes: 1_000,
      RequestedCapacityMaxBytes: 2_000,
    });
    expect(nodes.sent).toEqual([
      {
        node: nodeId(1),
        operation: {
          id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
          method: "dhv.create",
          key: `dhv:${ID}`,
          gen: 1,
          deadlineMs: 60_000,
          params: {
            id: ID,
            name: "db",
            namespace: "default",
            pluginId: "mkdir",
            parameters: { mode: "0750" },
            capacityMin: 1_000,
            capacityMax: 2_000,
          },
        },
      },
    ]);
  });

  it("accepts PUT and POST, fields in any case, and snake case with a warning", async () => {
    const posted = await put("/v1/volume/host/create", {
      volume: { name: "a", plugin_id: "mkdir", capacity_min: 5, RequestedCapabilities: [] },
      policyoverride: false,
    });
    expect(posted.body).toMatchObject({
      Volume: { Name: "a", PluginID: "mkdir", RequestedCapacityMinBytes: 5 },
      Warnings: "Volume.plugin_id was read as PluginID; Volume.capacity_min was read as RequestedCapacityMinBytes",
    });
  });

  it("accepts a minimum without a maximum", async () => {
    expect(await make({ RequestedCapacityMinBytes: 5 })).toMatchObject({ RequestedCapacityMinBytes: 5 });
  });

  it("stores the plugin's size and path", async () => {
    nodes.behave = () => ({ state: "done", result: { path: "/data/x", bytes: 4096 } });
    expect(await make()).toMatchObject({ HostPath: "/data/x", CapacityBytes: 4096 });
  });

  it("ignores fields that the service sets", async () => {
    const ours = { State: "ready", CreateIndex: 7, ModifyIndex: 8, CreateTime: 9, ModifyTime: 10, CapacityBytes: 11 };
    const made = await make({ ...ours, HostPath: "/etc", Allocations: [{}] });
    expect(made).toMatchObject({ State: "pending", CapacityBytes: 0, HostPath: `/volumes/${made.ID}` });
    expect(made.CreateIndex).toBe(made.ModifyIndex);
    expect(made).not.toHaveProperty("Allocations");
  });

  // Proves: D.rules.6.without-id
  it("places a second volume of the same name on another node, and refuses when there is none", async () => {
    await addNode(2);
    await addNode(3, { Attributes: { "kernel.name": "linux" } });
    expect([(await make()).NodeID, (await make()).NodeID]).toEqual([nodeId(1), nodeId(2)]);
    expect(refusal(await ask())).toEqual([
      409,
      'could not place volume "db": no node meets constraints: 2 nodes had existing volume, 0 nodes filtered by node pool governance, 1 nodes were infeasible (1 of them without the plugin "mkdir")',
    ]);
    expect((await make({ Name: "other" })).NodeID).toBe(nodeId(1));
  });

  it("reserves a name on the whole node for all namespaces", async () => {
    await put("/v1/namespace/prod", {});
    await make();
    expect((await ask({ Namespace: "prod" })).status).toBe(409);
    expect((await ask({ Namespace: "prod", NodeID: nodeId(1) })).text).toBe("volume name already exists on this node");
  });

  it("skips a node with another volume of the name", async () => {
    const stray = { db: { ID: "0199d1f0-0000-7000-8000-000000000000", Name: "db", Path: "/x", ReadOnly: false } };
    await clusterRegistry(env).registerNode(nodeId(1), { HostVolumes: stray });
    expect((await ask()).text).toContain("1 nodes had existing volume");
    await addNode(2);
    expect((await make()).NodeID).toBe(nodeId(2));
  });

  it.each<[string, object, Record<string, unknown>, boolean, string]>([
    ["is not ready", {}, {}, false, " (1 of them not ready or not eligible)"],
    ["is in another pool", { NodePool: "gpu" }, { NodePool: "default" }, true, "0 nodes were infeasible"],
    ["lacks the plugin", {}, { PluginID: "zfs" }, true, ' (1 of them without the plugin "zfs")'],
    [
      "does not meet a constraint",
      {},
      { Constraints: [{ LTarget: KERNEL, Operand: "=", RTarget: "plan9" }] },
      true,
      ` (1 of them outside the constraint ${KERNEL} = plan9)`,
    ],
  ])("skips a node that %s, and reports that", async (_what, node, wanted, ready, because) => {
    await addNode(2, { ...node }, ready);
    await make({ Name: "x", NodeID: nodeId(1) });
    const placed = await ask({ Name: "x", ...wanted });
    expect(placed.text).toContain("no node meets constraints");
    expect(placed.text.endsWith(because)).toBe(true);
    expect(placed.status).toBe(409);
  });

  it("selects a node in the requested pool", async () => {
    await addNode(2, { NodePool: "gpu" });
    expect(await make({ NodePool: "gpu" })).toMatchObject({ NodeID: nodeId(2), NodePool: "gpu" });
    expect(await make({ Name: "y", NodePool: "all" })).toMatchObject({ NodeID: nodeId(1), NodePool: "default" });
  });

  it("skips ineligible nodes, and reports how many are away", async () => {
    await put(`/v1/node/${nodeId(1)}/eligibility`, { Eligibility: "ineligible" });
    expect((await ask()).text).toMatch(/1 nodes were infeasible \(1 of them not ready or not eligible\)$/);
    expect(refusal(await ask({ NodeID: nodeId(1) }))).toEqual([
      409,
      `could not place volume "db": node ${nodeId(1)} is not feasible for volume: it is not eligible`,
    ]);
  });

  it("reads nodes page by page and counts them exactly", async () => {
    const registry = clusterRegistry(env);
    const others = Array.from(
      { length: 230 },
      (_, at) => `1000${String(at).padStart(4, "0")}-0000-4000-8000-000000000000`,
    );
    await Promise.all(
      others.map((id) => registry.registerNode(id, { Name: id, Datacenter: "dc1", Attributes: { a: "b" } })),
    );
    await Promise.all(others.map((id) => registry.nodeConnected(id)));
    await make();
    expect((await ask()).text).toContain("1 nodes had existing volume, 0 nodes filtered by node pool governance, 230");
    const last = `19999999-0000-4000-8000-000000000000`;
    await registry.registerNode(last, {
      Name: "last",
      Datacenter: "dc1",
      Attributes: { "plugins.host_volume.mkdir.version": "1" },
    });
    await registry.nodeConnected(last);
    expect((await make()).NodeID).toBe(last);
  });

  // Proves: D.rules.6.without-id
  it("never places two volumes of a name on one node under concurrent requests", async () => {
    for (const number of [2, 3]) await addNode(number);
    const answers = await Promise.all(Array.from({ length: 6 }, (_, at) => ask({ Parameters: { mode: `070${at}` } })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 409, 409, 409]);
    const placed = answers.flatMap(({ status, body }) => (status === 200 ? [body.Volume.NodeID] : []));
    expect(placed.sort()).toEqual([nodeId(1), nodeId(2), nodeId(3)]);
  });

  it("fails at once for a missing node, and stores nothing", async () => {
    await lose(nodeId(1));
    expect(refusal(await ask({ NodeID: nodeId(1) }))).toEqual([503, `node ${nodeId(1)} is disconnected`]);
    expect(nodes.sent).toEqual([]);
    await nothingStored();
  });

  it("leaves nothing when the agent is away", async () => {
    nodes.behave = () => ({ ok: false, reason: "unavailable", message: "the agent is not connected" });
    expect(refusal(await ask())).toEqual([503, "the agent is not connected"]);
    await nothingStored();
    nodes.behave = () => "work";
    expect((await ask()).status).toBe(200);
  });

  it.each<[string, number]>([
    ["invalid", 400],
    ["missing", 404],
    ["conflict", 409],
    ["exhausted", 507],
    ["forbidden", 400],
    ["unsupported", 501],
    ["unavailable", 503],
    ["timeout", 504],
    ["cancelled", 504],
    ["stale", 409],
    ["busy", 503],
    ["plugin", 502],
    ["internal", 502],
  ])("returns the node's failure %s (%i), and leaves nothing", async (kind, status) => {
    nodes.behave = () => ({ state: "failed", error: { kind: kind as "plugin", message: "the plugin said no" } });
    expect(refusal(await ask())).toEqual([status, "the plugin said no"]);
    await nothingStored();
    expect(await eventsOf("HostVolume")).toEqual([]);
    nodes.behave = () => "work";
    expect((await make()).NodeID).toBe(nodeId(1));
  });

  it("does not accept an empty result", async () => {
    nodes.behave = () => ({ state: "done", result: {} });
    expect((await ask()).status).toBe(502);
    await nothingStored();
  });
});
