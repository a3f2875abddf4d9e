import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { eventsOf, holderOf } from "./access.ts";
import { get } from "./client.ts";
import { addCsiNode, controllers, farNode, instance, nodePlugins, PLUGIN } from "./csi-world.ts";
import { addNode, lose, nodeId } from "./host-volumes.ts";

const plugin = async () => (await get(`/v1/plugin/csi/${PLUGIN}`)).body;
const counts = async () => {
  const { ControllersHealthy, ControllersExpected, NodesHealthy, NodesExpected } = await plugin();
  return [ControllersHealthy, ControllersExpected, NodesHealthy, NodesExpected];
};

describe("a CSI plugin", () => {
  it("exists from its first healthy instance on, with the fields that nodes report", async () => {
    await addNode(1, controllers({}, { Healthy: false }));
    expect((await get(`/v1/plugin/csi/${PLUGIN}`)).status).toBe(404);
    await addCsiNode(2);
    expect(await counts()).toEqual([1, 2, 1, 1]);
    const shown = await plugin();
    expect(shown).toMatchObject({
      ID: PLUGIN,
      Provider: "disk.example",
      Version: "1.0",
      ControllerRequired: true,
      Allocations: [],
      Controllers: {
        [nodeId(1)]: { Healthy: false },
        [nodeId(2)]: { Healthy: true, ControllerInfo: { SupportsCreateDelete: true, SupportsClone: false } },
      },
      Nodes: { [nodeId(2)]: { NodeInfo: { ID: farNode(2), MaxVolumes: 5, SupportsStats: false } } },
    });
    expect(shown.CreateIndex).toBeGreaterThan(0);
    expect((await get("/v1/plugins?type=csi")).body).toEqual([
      {
        ControllerRequired: true,
        ControllersExpected: 2,
        ControllersHealthy: 1,
        ID: PLUGIN,
        NodesExpected: 1,
        NodesHealthy: 1,
        Provider: "disk.example",
        CreateIndex: shown.CreateIndex,
        ModifyIndex: shown.ModifyIndex,
      },
    ]);
  });

  it("counts its instances, for any number of reconnects and repeated reports", async () => {
    await addCsiNode(1);
    await addCsiNode(2);
    for (let round = 0; round < 2; round++) {
      await lose(nodeId(1));
      expect(await counts()).toEqual([1, 2, 1, 2]);
      await clusterRegistry(env).nodeConnected(nodeId(1));
      await clusterRegistry(env).registerNode(nodeId(1), controllers());
      expect(await counts()).toEqual([2, 2, 2, 2]);
    }
    await clusterRegistry(env).registerNode(nodeId(2), { CSIControllerPlugins: {}, ...nodePlugins() });
    expect(await counts()).toEqual([1, 1, 2, 2]);
  });

  it("is deleted with its last instance", async () => {
    await addCsiNode(1);
    await clusterRegistry(env).purgeNode(nodeId(1), true);
    expect((await get(`/v1/plugin/csi/${PLUGIN}`)).status).toBe(404);
    expect((await get("/v1/plugins?type=csi")).body).toEqual([]);
    const told = await eventsOf("CSIPlugin");
    expect(told.map(({ Type, Payload }) => [Type, Payload.Plugin.ControllersExpected])).toContainEqual([
      "NodeDeregistration",
      0,
    ]);
  });

  it("sends an event when its health or its nodes change, not for a repeated report", async () => {
    await addCsiNode(1);
    const before = (await eventsOf("CSIPlugin")).length;
    const later = { UpdateTime: "2026-02-02T03:04:05Z" };
    await clusterRegistry(env).registerNode(nodeId(1), { ...controllers({}, later), ...nodePlugins(later) });
    expect(await eventsOf("CSIPlugin")).toHaveLength(before);
    await clusterRegistry(env).registerNode(nodeId(1), controllers({}, { Healthy: false }));
    const told = await eventsOf("CSIPlugin");
    expect(told).toHaveLength(before + 1);
    expect(told.at(-1)).toMatchObject({
      Type: "NodeRegistration",
      Key: PLUGIN,
      Namespace: "",
      FilterKeys: [PLUGIN],
      Payload: {
        Plugin: { ID: PLUGIN, ControllersHealthy: 0, ControllersExpected: 1, ModifyIndex: told.at(-1).Index },
      },
    });
    expect((await plugin()).ModifyIndex).toBe(told.at(-1).Index);
  });

  it("wakes blocking queries", async () => {
    await addCsiNode(1);
    const index = (await plugin()).ModifyIndex;
    const waiting = get(`/v1/plugins?type=csi&index=${index}&wait=10s`);
    await scheduler.wait(50);
    await lose(nodeId(1));
    expect((await waiting).body).toMatchObject([{ ID: PLUGIN, ControllersHealthy: 0 }]);
  });

  it("is listed by id prefix", async () => {
    await addNode(1, { CSINodePlugins: { ab: instance({ NodeInfo: {} }), b: instance({ NodeInfo: {} }) } });
    const ids = async (query: string) =>
      (await get(`/v1/plugins?type=csi${query}`)).body.map(({ ID }: { ID: string }) => ID);
    expect(await ids("")).toEqual(["ab", "b"]);
    expect(await ids("&prefix=a")).toEqual(["ab"]);
    expect(await ids("&prefix=c")).toEqual([]);
  });
});

describe("access to CSI plugins", () => {
  it.each([
    ['plugin { policy = "list" }', 200, 403],
    ['plugin { policy = "read" }', 200, 200],
    ['namespace "*" { policy = "write" }', 403, 403],
  ])("%s", async (rules, list, read) => {
    await addCsiNode(1);
    const { client_token: token } = await holderOf(rules);
    expect((await get("/v1/plugins?type=csi", { token })).status).toBe(list);
    expect((await get(`/v1/plugin/csi/${PLUGIN}`, { token })).status).toBe(read);
  });

  it("shows allocations only to tokens that may read jobs", async () => {
    await addCsiNode(1);
    const { client_token: token } = await holderOf('plugin { policy = "read" }');
    expect((await get(`/v1/plugin/csi/${PLUGIN}`, { token })).body.Allocations).toBeNull();
  });
});
