import { expect, it } from "vitest";
import type { NodeView } from "../../cluster/nodes/view.ts";
import type { StoredVolume } from "../../contracts/host-volumes.ts";
import type { VolumeClaims } from "../host-claims/claims.ts";
import type { VolumeOperations } from "./volume-operations.ts";
import { VolumeStates } from "./volume-states.ts";
import type { HostVolumeStore } from "./volume-store.ts";

const volume = (id: string, nodeId: string): StoredVolume => ({
  id,
  namespace: "default",
  name: id,
  nodeId,
  nodePool: "default",
  pluginId: "mkdir",
  state: "ready",
  made: true,
  wanted: { parameters: {}, constraints: [], capabilities: [], capacityMin: 0, capacityMax: 0 },
  capacityBytes: 0,
  hostPath: "/v",
  createTime: 0,
  modifyTime: 0,
  createIndex: 1,
  modifyIndex: 1,
});

it("changes the state of a volume by reports of its own node alone", () => {
  const volumes = [volume("own", "node"), volume("other", "another")];
  const updated: string[] = [];
  const nodes = { find: () => ({ status: "ready", pool: "default", isUsable: () => false }) } as unknown as NodeView;
  const store = {
    find: (id: string) => volumes.find((each) => each.id === id) ?? null,
    update: ({ id, state }: StoredVolume) => updated.push(`${id} ${state}`),
  } as unknown as HostVolumeStore;
  const states = new VolumeStates(nodes, store, {} as VolumeOperations, {} as VolumeClaims);
  states.volumesChanged("node", ["own", "other", "unknown"], "HostVolumeUpdated");
  expect(updated).toEqual(["own unavailable"]);
});
