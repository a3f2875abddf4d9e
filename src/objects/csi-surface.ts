import type {
  CsiOperation,
  CsiOutcome,
  CsiPlugin,
  CsiVolumePage,
  CsiVolumeQuery,
  FoundCsiVolume,
  InstancePage,
  Name,
  PluginPage,
  Role,
  ShowableClaim,
} from "../contracts/csi-volumes.ts";
import type { EndedNamespaces } from "../platform/durable/ended-namespaces.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { showable } from "../volumes/csi/claim-views.ts";
import type { CsiClaims } from "../volumes/csi/claims.ts";
import type { Csi } from "../volumes/csi/csi.ts";
import type { CsiVolumes } from "../volumes/csi/csi-volumes.ts";
import type { CsiDispatcher } from "../volumes/csi/dispatcher.ts";
import { CSI_PLUGIN } from "../volumes/csi/plugins.ts";
import type { ProviderCalls } from "../volumes/csi/provider-calls.ts";
import { CSI_VOLUME } from "../volumes/csi/volume-store.ts";

/** CSI surface of `ClusterRegistry`; its components decide. */
export abstract class CsiSurface extends StoredObject {
  protected abstract readonly csi: Csi;
  protected abstract readonly ended: EndedNamespaces;
  /** The newest index of a table. */
  protected abstract indexOf(table: string): number;

  // ---- CSI plugins ----

  /** Plugins with an id prefix, and the index of their table. */
  csiPlugins(prefix: string, from: string): PluginPage & { readonly index: number } {
    return { ...this.csi.plugins.page(prefix, from), index: this.indexOf(CSI_PLUGIN) };
  }

  csiPlugin(id: string): { readonly plugin: CsiPlugin | null; readonly index: number } {
    return { plugin: this.csi.plugins.find(id), index: this.indexOf(CSI_PLUGIN) };
  }

  csiPluginInstances(id: string, role: Role, from: string): InstancePage {
    return this.csi.plugins.instances(id, role, from);
  }

  // ---- CSI volumes ----

  /** One page of CSI volumes, and the index of their table. */
  csiVolumes(query: CsiVolumeQuery): CsiVolumePage & { readonly index: number } {
    return { ...this.csi.store.page(query), index: this.indexOf(CSI_VOLUME) };
  }

  /** Whether a CSI volume or a node uses this plugin. */
  hasCsiVolumesOf(pluginId: string): boolean {
    return this.csi.plugins.find(pluginId) !== null || this.csi.store.hasPlugin(pluginId);
  }

  readCsiVolume(name: Name): { readonly found: FoundCsiVolume | null; readonly index: number } {
    return { found: this.csi.store.read(name), index: this.indexOf(CSI_VOLUME) };
  }

  validateCsiVolume(...given: Parameters<CsiVolumes["validate"]>): ReturnType<CsiVolumes["validate"]> {
    return this.csi.volumes.validate(...given);
  }

  growCsiVolume(...given: Parameters<CsiVolumes["grow"]>): ReturnType<CsiVolumes["grow"]> {
    return this.csi.volumes.grow(...given);
  }

  /** @param namespaceId identity of the volume's namespace; refused when deleted */
  createCsiVolume(namespaceId: string, ...given: Parameters<CsiVolumes["create"]>): ReturnType<CsiVolumes["create"]> {
    const admitted = this.ended.admit([namespaceId]);
    return admitted.ok ? this.csi.volumes.create(...given) : admitted;
  }

  /** @param namespaceIds identities of the volumes' namespaces; refused when one is deleted */
  async commitCsiVolumes(
    namespaceIds: readonly string[],
    ...given: Parameters<CsiVolumes["commit"]>
  ): ReturnType<CsiVolumes["commit"]> {
    const admitted = this.ended.admit(namespaceIds);
    return admitted.ok ? this.csi.volumes.commit(...given) : admitted;
  }

  deregisterCsiVolume(...given: Parameters<CsiVolumes["deregister"]>): ReturnType<CsiVolumes["deregister"]> {
    return this.csi.volumes.deregister(...given);
  }

  deleteCsiVolume(...given: Parameters<CsiVolumes["delete"]>): ReturnType<CsiVolumes["delete"]> {
    return this.csi.volumes.delete(...given);
  }

  detachCsiVolume(...given: Parameters<CsiClaims["detach"]>): ReturnType<CsiClaims["detach"]> {
    return this.csi.claims.detach(...given);
  }

  csiDetached(...given: Parameters<CsiClaims["detached"]>): ReturnType<CsiClaims["detached"]> {
    return this.csi.claims.detached(...given);
  }

  csiExpanded(...given: Parameters<CsiClaims["expanded"]>): ReturnType<CsiClaims["expanded"]> {
    return this.csi.claims.expanded(...given);
  }

  /** Claims of a CSI volume, oldest first, from a row on. Never includes sealed values. */
  csiClaims(name: Name, from: number, limit: number): ShowableClaim[] {
    return this.csi.claimStore.of(name, from, limit).map(showable);
  }

  listExternalVolumes(...given: Parameters<ProviderCalls["listVolumes"]>): ReturnType<ProviderCalls["listVolumes"]> {
    return this.csi.asks.listVolumes(...given);
  }

  createSnapshot(...given: Parameters<ProviderCalls["createSnapshot"]>): ReturnType<ProviderCalls["createSnapshot"]> {
    return this.csi.asks.createSnapshot(...given);
  }

  deleteSnapshot(...given: Parameters<ProviderCalls["deleteSnapshot"]>): ReturnType<ProviderCalls["deleteSnapshot"]> {
    return this.csi.asks.deleteSnapshot(...given);
  }

  listSnapshots(...given: Parameters<ProviderCalls["listSnapshots"]>): ReturnType<ProviderCalls["listSnapshots"]> {
    return this.csi.asks.listSnapshots(...given);
  }

  /** Outcome of a plugin operation: see `CsiDispatcher.outcome`. */
  csiOutcome(...given: Parameters<CsiDispatcher["outcome"]>): Promise<CsiOutcome | null> {
    return this.csi.dispatcher.outcome(...given);
  }

  /** Recent operations of a CSI volume, newest first, from a number down. Never includes sealed values. */
  csiOperations({ namespace, id }: Name, from: number, limit: number): Omit<CsiOperation, "sealed">[] {
    return this.csi.operations
      .ofVolume(namespace, id, from + 1, limit)
      .map(({ sealed: _sealed, ...operation }) => operation);
  }
}
