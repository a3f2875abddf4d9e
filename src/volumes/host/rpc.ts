import type { HostVolumesApi, VolumeClaimsApi } from "../../contracts/host-volumes.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { EndedNamespaces } from "../../platform/durable/ended-namespaces.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import { VOLUME_CLAIM } from "../host-claims/store.ts";
import type { HostVolumeComponents } from "./components.ts";
import { HOST_VOLUME } from "./volume-store.ts";

interface HostVolumeParts {
  readonly host: HostVolumeComponents;
  readonly ended: EndedNamespaces;
  readonly indexes: TableIndexes;
}

/** RPC methods of `ClusterRegistry` about host volumes. */
export const hostVolumeMethods: MethodTable<HostVolumesApi, HostVolumeParts> = {
  hostVolumes: ({ host, indexes }, query) => ({ ...host.store.page(query), index: indexes.of(HOST_VOLUME) }),
  hasHostVolumesOf: ({ host }, pluginId) => host.store.hasPlugin(pluginId),
  readHostVolume: ({ host }, id) => host.volumes.read(id),
  createHostVolume: ({ host, ended }, namespaceId, ...given) => {
    const admitted = ended.admit([namespaceId]);
    return admitted.ok ? host.volumes.create(...given) : admitted;
  },
  registerHostVolume: ({ host, ended }, namespaceId, ...given) => {
    const admitted = ended.admit([namespaceId]);
    return admitted.ok ? host.volumes.register(...given) : admitted;
  },
  updateHostVolume: ({ host }, ...given) => host.volumes.update(...given),
  deleteHostVolume: ({ host }, ...given) => host.volumes.delete(...given),
  volumeOperation: ({ host }, ...given) => host.volumes.outcome(...given),
  leaveVolumeOperation: ({ host }, operation) => host.volumes.leave(operation),
  volumeDoubt: ({ host }, operation) => host.volumes.doubt(operation),
  unknownVolumes: ({ host }, nodeId, held) => host.states.unknownOn(nodeId, held),
};

/** RPC methods of `ClusterRegistry` about sticky claims. */
export const volumeClaimMethods: MethodTable<VolumeClaimsApi, HostVolumeParts> = {
  volumeClaims: ({ host, indexes }, query) => ({ ...host.claimStore.page(query), index: indexes.of(VOLUME_CLAIM) }),
  deleteVolumeClaim: ({ host }, ...given) => host.claims.delete(...given),
};
