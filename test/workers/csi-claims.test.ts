import { beforeEach, describe, expect, it } from "vitest";
import { eventsOf } from "./access.ts";
import { get } from "./client.ts";
import { addCsiNode, claimsOf, create, ends, runs, ScriptedCsi, statesOf } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";

let csi: ScriptedCsi;

beforeEach(async () => {
  csi = new ScriptedCsi();
  await addCsiNode(1);
});

describe("a claim", () => {
  it("walks from its allocation's report to a path, and back until nothing is left", async () => {
    await create();
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    expect(await claimsOf()).toEqual([
      {
        ...{ AccessMode: "single-node-writer", AllocID: "a1", AttachmentMode: "file-system", Attempts: 0 },
        ...{ CreateTime: expect.any(Number), ExpansionOwed: false, ExternalNodeID: "far-node", LastError: "" },
        ...{ Mode: "write", ModifyTime: expect.any(Number), NextRetry: null, NodeID: nodeId(1), OperationID: "" },
        ...{ Path: "/mounts/a1", State: "published" },
      },
    ]);
    const held = (await get("/v1/volume/csi/v1")).body;
    expect([held.AccessMode, held.AttachmentMode, held.WriteAllocs]).toEqual([
      "single-node-writer",
      "file-system",
      { a1: null },
    ]);
    await ends(nodeId(1));
    await expect.poll(() => statesOf()).toEqual([]);
    expect(csi.asked).toEqual(["create", "publish", "node.publish", "node.detach", "unpublish"]);
    expect([csi.attached.size, csi.published.size, csi.wrongs]).toEqual([0, 0, []]);
    const free = (await get("/v1/volume/csi/v1")).body;
    expect([free.AccessMode, free.AttachmentMode, free.WriteAllocs]).toEqual(["", "", {}]);
    const told = await eventsOf("CSIVolume");
    expect(told.map(({ Type }) => Type).slice(1)).toEqual(told.slice(1).map(() => "CSIVolumeClaim"));
    expect(told.at(-1).Payload.Volume).toMatchObject({ AccessMode: "", WriteAllocs: {} });
    expect(told.at(-1).Index).toBe(free.ModifyIndex);
  });
});
