import type { CsiVolume, Topology, TopologyRequest } from "../../contracts/csi-volumes.ts";
import type { MountOptions } from "../../contracts/volume-asks.ts";
import { remoteId } from "./volume-views.ts";

/** Volume parameters in the form of the agent protocol. */

export const mountParam = (mount: MountOptions | null) =>
  mount && { fsType: mount.FSType, mountFlags: mount.MountFlags };

const segmentsOf = (topologies: readonly Topology[] | null) => (topologies ?? []).map(({ Segments }) => Segments);

/** Null instead of an empty requirement, which drivers refuse. */
export function topologyParam(asked: TopologyRequest | null) {
  const required = segmentsOf(asked?.Required ?? null);
  const preferred = segmentsOf(asked?.Preferred ?? null);
  return required.length + preferred.length === 0 ? null : { required, preferred };
}

type Validated = Pick<
  CsiVolume,
  "id" | "externalId" | "pluginId" | "capabilities" | "mount" | "parameters" | "context"
>;

export const validateParams = (volume: Validated) => ({
  ...{ pluginId: volume.pluginId, externalId: remoteId(volume) },
  capabilities: volume.capabilities.map(({ AccessMode, AttachmentMode }) => ({
    accessMode: AccessMode,
    attachmentMode: AttachmentMode,
  })),
  ...{ mount: mountParam(volume.mount), parameters: volume.parameters, context: volume.context },
});
