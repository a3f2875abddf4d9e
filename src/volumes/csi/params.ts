import type { CsiRequest, CsiVolume, Topology, TopologyRequest } from "../../contracts/csi-volumes.ts";
import type { MountOptions } from "../../contracts/volume-requests.ts";
import { remoteId } from "./volume-views.ts";

/** Volume parameters in the form of the agent protocol. */

export const mountParam = (mount: MountOptions | null) =>
  mount && { fsType: mount.FSType, mountFlags: mount.MountFlags };

const segmentsOf = (topologies: readonly Topology[] | null) => (topologies ?? []).map(({ Segments }) => Segments);

/** Null instead of an empty requirement, which drivers refuse. */
function topologyParam(asked: TopologyRequest | null) {
  const required = segmentsOf(asked?.Required ?? null);
  const preferred = segmentsOf(asked?.Preferred ?? null);
  return required.length + preferred.length === 0 ? null : { required, preferred };
}

type Validated = Pick<
  CsiVolume,
  "id" | "externalId" | "pluginId" | "capabilities" | "mount" | "parameters" | "context"
>;

export const validateParams = (volume: Validated) => ({
  pluginId: volume.pluginId,
  externalId: remoteId(volume),
  capabilities: volume.capabilities.map(({ AccessMode, AttachmentMode }) => ({
    accessMode: AccessMode,
    attachmentMode: AttachmentMode,
  })),
  mount: mountParam(volume.mount),
  parameters: volume.parameters,
  context: volume.context,
});

export function createParams(request: CsiRequest) {
  const { pluginId, name, parameters, mutableParameters = {}, snapshotId, cloneId, capacityMin, capacityMax } = request;
  return {
    pluginId,
    name,
    parameters,
    capacityMin,
    capacityMax,
    snapshotId,
    cloneId,
    ...(Object.keys(mutableParameters).length > 0 && { mutableParameters }),
    capabilities: validateParams(request).capabilities,
    mount: mountParam(request.mount),
    topology: topologyParam(request.topologyRequest),
  };
}

export function expandParams(volume: CsiVolume) {
  const { pluginId, capacityMin, capacityMax, capabilities, mount } = volume;
  const [capability] = capabilities;
  return {
    pluginId,
    externalId: remoteId(volume),
    capacityMin,
    capacityMax,
    mount: mountParam(mount),
    capability: capability ? { accessMode: capability.AccessMode, attachmentMode: capability.AttachmentMode } : null,
  };
}
