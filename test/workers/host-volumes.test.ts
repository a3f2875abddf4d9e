import { beforeEach, describe, expect, it } from "vitest";
import { del, get, put } from "./client.ts";
import { addNode, ask, lose, make, nodeId, register, ScriptedNodes, volume } from "./host-volumes.ts";

let nodes: ScriptedNodes;

beforeEach(async () => {
  nodes = new ScriptedNodes();
  await addNode(1);
});

describe("creating a host volume", () => {
  it("has a node make it, and answers it as it is stored", async () => {
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
    expect([made.headers.get("X-Orch-Index"), Warnings]).toEqual([String(Index), ""]);
    const read = await get(`/v1/volume/host/${Volume.ID}`);
    expect([read.status, read.body, read.headers.get("X-Orch-Index")]).toEqual([200, Volume, String(Index)]);
    expect(nodes.sent.map(({ node, operation }) => [node, operation.method, operation.key, operation.gen])).toEqual([
      [nodeId(1), "dhv.create", `dhv:${Volume.ID}`, 1],
    ]);
  });
});
