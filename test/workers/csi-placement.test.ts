import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { del, get } from "./client.ts";
import {
  claimsOf,
  controllers,
  create,
  ends,
  farNode,
  nodePlugins,
  PLUGIN,
  runs,
  ScriptedCsi,
  statesOf,
} from "./csi-world.ts";
import { addNode, lose, nodeId } from "./host-volumes.ts";

/* Which controller is asked, and what reads show of capacity and of volumes that are unwell. */

let csi: ScriptedCsi;

beforeEach(() => {
  csi = new ScriptedCsi();
});

const at = (rack: string) => ({ Segments: { rack } });
/** A node with both services of the plugin in a rack. */
const addIn = (number: number, rack: string, capacity?: number) =>
  addNode(number, {
    ...controllers({}, capacity === undefined ? {} : { AvailableCapacity: capacity }),
    ...nodePlugins({ NodeInfo: { ID: farNode(number), MaxVolumes: 5, AccessibleTopology: at(rack) } }),
  });
const askedOf = (method: string) =>
  csi.sent.filter(({ operation }) => operation.method === method).map(({ node }) => node);
const inRack = (rack: string) => ({ RequestedTopologies: { Required: [at(rack)] } });

describe("a controller of a plugin", () => {
  it("is the one on the only node of the volume's topology, for each call", async () => {
    for (const [at, rack] of ["a", "b", "c"].entries()) await addIn(at + 1, rack);
    expect((await create(inRack("b"))).status).toBe(200);
    await runs(nodeId(2));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    await ends(nodeId(2));
    await expect.poll(() => statesOf()).toEqual([]);
    expect((await create({ ...inRack("b"), RequestedCapacityMin: 4_096 })).status).toBe(200);
    expect((await del("/v1/volume/csi/v1/delete")).status).toBe(200);
    for (const method of ["create", "publish", "unpublish", "expand", "delete"])
      expect(askedOf(`csi.controller.${method}`), method).toEqual([nodeId(2)]);
  });

  it("on another node does not replace it while it is away: a node-local driver there does not know the volume", async () => {
    await addIn(1, "a");
    await addIn(2, "b");
    expect((await create(inRack("b"))).status).toBe(200);
    await lose(nodeId(2));
    const answer = await del("/v1/volume/csi/v1/delete");
    expect(answer.status).toBe(503);
    expect(answer.text).toContain(
      `the controller of CSI plugin ${PLUGIN} on node ${nodeId(2)}, which has the volume, is not healthy`,
    );
    expect(csi.disks.size).toBe(1);
  });

  it("is preferred in a topology of several nodes, and replaced by another when it is away", async () => {
    await addIn(1, "a");
    await addIn(2, "b");
    await addIn(3, "b");
    expect((await create(inRack("b"))).status).toBe(200);
    expect(askedOf("csi.controller.create")).toEqual([nodeId(2)]);
    await lose(nodeId(2));
    await lose(nodeId(3));
    expect((await del("/v1/volume/csi/v1/delete")).status).toBe(200);
    expect(askedOf("csi.controller.delete")).toEqual([nodeId(1)]);
  });

  it("with capacity for a new volume comes first; one whose capacity is unknown counts as having it", async () => {
    await addIn(1, "a", 1_000);
    await addIn(2, "a", 9_000);
    expect((await create({ RequestedCapacityMin: 5_000 })).status).toBe(200);
    expect((await create({ ID: "v2", Name: "two", RequestedCapacityMin: 500 })).status).toBe(200);
    // More than each reports: the plugin decides.
    expect((await create({ ID: "v3", Name: "three", RequestedCapacityMin: 90_000 })).status).toBe(200);
    await clusterRegistry(env).registerNode(nodeId(1), controllers());
    expect((await create({ ID: "v4", Name: "four", RequestedCapacityMin: 5_000 })).status).toBe(200);
    expect(askedOf("csi.controller.create")).toEqual([2, 1, 1, 1].map(nodeId));
  });

  it("shows its capacity in the read of the plugin", async () => {
    await addIn(1, "a", 42);
    const { body } = await get(`/v1/plugin/csi/${PLUGIN}`);
    expect(body.Controllers[nodeId(1)]).toMatchObject({ AvailableCapacity: 42 });
    expect(body.Nodes[nodeId(1)]).not.toHaveProperty("AvailableCapacity");
  });
});

describe("a claim", () => {
  it("shows why its node cannot use the volume, and no other claim does", async () => {
    await addIn(1, "a");
    const modes = { AccessMode: "single-node-multi-writer", AttachmentMode: "file-system" };
    expect((await create({ RequestedCapabilities: [modes] })).status).toBe(200);
    for (const alloc of ["a1", "a2"]) await runs(nodeId(1), { alloc, AccessMode: modes.AccessMode });
    await expect.poll(() => statesOf()).toEqual(["published", "published"]);
    const problemsOf = async () => (await claimsOf()).map(({ Problem }: { Problem: string }) => Problem);
    expect(await problemsOf()).toEqual(["", ""]);
    const VolumeProblems = [
      { ExternalID: "ext-vol-one", AllocID: "a2", Reason: "the mount was removed" },
      { ExternalID: "ext-another", AllocID: "a1", Reason: "not of this volume" },
    ];
    const NodeInfo = { ID: farNode(1), MaxVolumes: 5 };
    await clusterRegistry(env).registerNode(nodeId(1), {
      ...controllers(),
      ...nodePlugins({ NodeInfo, VolumeProblems }),
    });
    expect(await problemsOf()).toEqual(["", "the mount was removed"]);
    expect((await get(`/v1/plugin/csi/${PLUGIN}`)).body.Nodes[nodeId(1)]).toMatchObject({ VolumeProblems });
    await clusterRegistry(env).registerNode(nodeId(1), { ...controllers(), ...nodePlugins({ NodeInfo }) });
    expect(await problemsOf()).toEqual(["", ""]);
  });

  it("on another node waits while a single-node-multi-writer volume is claimed", async () => {
    await addIn(1, "a");
    await addIn(2, "a");
    const modes = { AccessMode: "single-node-multi-writer", AttachmentMode: "file-system" };
    expect((await create({ RequestedCapabilities: [modes] })).status).toBe(200);
    await runs(nodeId(1), { alloc: "a1", AccessMode: modes.AccessMode });
    await expect.poll(() => statesOf()).toEqual(["published"]);
    await runs(nodeId(2), { alloc: "a2", AccessMode: modes.AccessMode });
    await expect.poll(async () => (await claimsOf())[1]?.LastError).toContain("volume max claims reached");
    await ends(nodeId(1), "a1", { AccessMode: modes.AccessMode });
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect((await claimsOf())[0]).toMatchObject({ AllocID: "a2", NodeID: nodeId(2) });
  });
});
