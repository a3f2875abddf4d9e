import type { CsiClaimsApi, CsiOperationsApi, CsiPluginsApi, CsiVolumesApi } from "../../contracts/csi-volumes.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { EndedNamespaces } from "../../platform/durable/ended-namespaces.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import { showable } from "./claim-views.ts";
import type { Csi } from "./csi.ts";
import { CSI_PLUGIN } from "./plugins.ts";
import { CSI_VOLUME } from "./volume-store.ts";
import { remoteId } from "./volume-views.ts";

interface CsiParts {
  readonly csi: Csi;
  readonly ended: EndedNamespaces;
  readonly indexes: TableIndexes;
}

/** RPC methods of `ClusterRegistry` about CSI volumes. */
export const csiVolumeMethods: MethodTable<CsiVolumesApi, CsiParts> = {
  csiVolumes: ({ csi, indexes }, query) => ({ ...csi.store.page(query), index: indexes.of(CSI_VOLUME) }),
  readCsiVolume: ({ csi, indexes }, name) => ({ found: csi.store.read(name), index: indexes.of(CSI_VOLUME) }),
  validateCsiVolume: ({ csi }, ...given) => csi.volumes.validate(...given),
  growCsiVolume: ({ csi }, ...given) => csi.volumes.grow(...given),
  modifyCsiVolume: ({ csi }, ...given) => csi.volumes.modify(...given),
  createCsiVolume: ({ csi, ended }, namespaceId, ...given) => {
    const admitted = ended.admit([namespaceId]);
    return admitted.ok ? csi.volumes.create(...given) : admitted;
  },
  commitCsiVolumes: async ({ csi, ended }, namespaceIds, ...given) => {
    const admitted = ended.admit(namespaceIds);
    return admitted.ok ? csi.volumes.commit(...given) : admitted;
  },
  deregisterCsiVolume: ({ csi }, ...given) => csi.volumes.deregister(...given),
  deleteCsiVolume: ({ csi }, ...given) => csi.volumes.delete(...given),
};

/** RPC methods of `ClusterRegistry` about claims on CSI volumes. */
export const csiClaimMethods: MethodTable<CsiClaimsApi, CsiParts> = {
  detachCsiVolume: ({ csi }, ...given) => csi.claims.detach(...given),
  csiDetached: ({ csi }, ...given) => csi.claims.detached(...given),
  csiExpanded: ({ csi }, ...given) => csi.claims.expanded(...given),
  csiClaims: ({ csi }, name, from, limit) => {
    const volume = csi.store.find(name);
    return csi.claimStore.of(name, from, limit).map((claim) => {
      const problems = (volume && csi.plugins.nodeInstance(volume.pluginId, claim.nodeId)?.VolumeProblems) ?? [];
      const own = problems.find(
        (each) => each.AllocID === claim.allocId && volume && each.ExternalID === remoteId(volume),
      );
      return { ...showable(claim), problem: own?.Reason ?? "" };
    });
  },
};

/** RPC methods of `ClusterRegistry` about calls to CSI plugins: snapshots, volumes of the provider, and outcomes. */
export const csiOperationMethods: MethodTable<CsiOperationsApi, CsiParts> = {
  listExternalVolumes: ({ csi }, ...given) => csi.calls.listVolumes(...given),
  createSnapshot: ({ csi }, ...given) => csi.calls.createSnapshot(...given),
  deleteSnapshot: ({ csi }, ...given) => csi.calls.deleteSnapshot(...given),
  listSnapshots: ({ csi }, ...given) => csi.calls.listSnapshots(...given),
  csiOutcome: ({ csi }, ...given) => csi.dispatcher.outcome(...given),
  csiOperations: ({ csi }, { namespace, id }, from, limit) =>
    csi.operations.ofVolume(namespace, id, from + 1, limit).map(({ sealed: _sealed, ...operation }) => operation),
};

/** RPC methods of `ClusterRegistry` about CSI plugins. */
export const csiPluginMethods: MethodTable<CsiPluginsApi, CsiParts> = {
  csiPlugins: ({ csi, indexes }, prefix, from) => ({
    ...csi.plugins.page(prefix, from),
    index: indexes.of(CSI_PLUGIN),
  }),
  csiPlugin: ({ csi, indexes }, id) => ({ plugin: csi.plugins.find(id), index: indexes.of(CSI_PLUGIN) }),
  csiPluginInstances: ({ csi }, id, role, from) => csi.plugins.instances(id, role, from),
  hasCsiVolumesOf: ({ csi }, pluginId) => csi.plugins.find(pluginId) !== null || csi.store.hasPlugin(pluginId),
};
