import type { Capability, StoredVolume } from "../../contracts/host-volumes.ts";
import * as kind from "../../lib/bexpr/kinds.ts";
import { pick } from "../../lib/pick.ts";

/** Host volumes: the forms of requests, rows, responses and events (docs/internals/wire/volumes.md). */

export const ACCESS_MODES = [
  "single-node-reader-only",
  "single-node-writer",
  "single-node-single-writer",
  "single-node-multi-writer",
] as const;
export const ATTACHMENT_MODES = ["file-system", "block-device"] as const;

export const DEFAULT_CAPABILITY: Capability = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };

const nanoseconds = (ms: number): number => ms * 1_000_000;

/** A volume as reads and events show it. Empty constraints and parameters are omitted. */
export function hostVolumeJson(volume: StoredVolume) {
  const { parameters, constraints, capabilities, capacityMin, capacityMax } = volume.wanted;
  return {
    CapacityBytes: volume.capacityBytes,
    ...(constraints.length > 0 && { Constraints: constraints }),
    CreateIndex: volume.createIndex,
    CreateTime: nanoseconds(volume.createTime),
    HostPath: volume.hostPath,
    ID: volume.id,
    ModifyIndex: volume.modifyIndex,
    ModifyTime: nanoseconds(volume.modifyTime),
    Name: volume.name,
    Namespace: volume.namespace,
    NodeID: volume.nodeId,
    NodePool: volume.nodePool,
    ...(Object.keys(parameters).length > 0 && { Parameters: parameters }),
    PluginID: volume.pluginId,
    RequestedCapabilities: capabilities,
    RequestedCapacityMaxBytes: capacityMax,
    RequestedCapacityMinBytes: capacityMin,
    State: volume.state,
  };
}
type HostVolumeJson = ReturnType<typeof hostVolumeJson>;

/** An index that is not assigned yet is shown as 0. */
export const shownHostVolume = (volume: HostVolumeJson) => ({
  ...volume,
  CreateIndex: volume.CreateIndex ?? 0,
  ModifyIndex: volume.ModifyIndex ?? volume.CreateIndex ?? 0,
});
export type ShownHostVolume = ReturnType<typeof shownHostVolume>;

/** A volume as lists show it. */
export const hostVolumeStub = (volume: ShownHostVolume) => ({
  ...pick(volume, "CapacityBytes", "CreateIndex", "CreateTime", "ID", "ModifyIndex", "ModifyTime", "Name", "Namespace"),
  ...pick(volume, "NodeID", "NodePool", "PluginID", "State"),
});

/** The fields that a filter expression can name. */
export const hostVolumeFields = kind.record<ShownHostVolume>({
  CapacityBytes: kind.integer,
  Constraints: kind.list(kind.struct({ LTarget: kind.string, Operand: kind.string, RTarget: kind.string })),
  CreateIndex: kind.integer,
  CreateTime: kind.integer,
  HostPath: kind.string,
  ID: kind.string,
  ModifyIndex: kind.integer,
  ModifyTime: kind.integer,
  Name: kind.string,
  Namespace: kind.string,
  NodeID: kind.string,
  NodePool: kind.string,
  Parameters: kind.map(kind.string),
  PluginID: kind.string,
  RequestedCapabilities: kind.list(kind.struct({ AccessMode: kind.string, AttachmentMode: kind.string })),
  RequestedCapacityMaxBytes: kind.integer,
  RequestedCapacityMinBytes: kind.integer,
  State: kind.string,
});
