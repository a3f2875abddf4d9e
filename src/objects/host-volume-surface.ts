import type {
  ClaimPage,
  ClaimQuery,
  FoundVolume,
  Outcome,
  VolumePage,
  VolumeQuery,
} from "../contracts/host-volumes.ts";
import type { VolumeClaims } from "../volumes/claims/claims.ts";
import { VOLUME_CLAIM } from "../volumes/claims/store.ts";
import type { HostVolumeComponents } from "../volumes/host/components.ts";
import type { HostVolumes } from "../volumes/host/host-volumes.ts";
import { HOST_VOLUME } from "../volumes/host/volume-store.ts";
import { CsiSurface } from "./csi-surface.ts";

/** Host volume surface of `ClusterRegistry`, including sticky claims; its components decide. */
export abstract class HostVolumeSurface extends CsiSurface {
  protected abstract readonly host: HostVolumeComponents;

  /** One page of host volumes, and the index of their table. */
  hostVolumes(query: VolumeQuery): VolumePage & { readonly index: number } {
    return { ...this.host.store.page(query), index: this.indexOf(HOST_VOLUME) };
  }

  /** Whether a host volume uses this plugin. */
  hasHostVolumesOf(pluginId: string): boolean {
    return this.host.store.hasPlugin(pluginId);
  }

  readHostVolume(id: string): FoundVolume | null {
    return this.host.volumes.read(id);
  }

  /** @param namespaceId identity of the volume's namespace; refused when deleted */
  createHostVolume(
    namespaceId: string,
    ...given: Parameters<HostVolumes["create"]>
  ): ReturnType<HostVolumes["create"]> {
    const admitted = this.ended.admit([namespaceId]);
    return admitted.ok ? this.host.volumes.create(...given) : admitted;
  }

  /** Like `createHostVolume`. */
  registerHostVolume(
    namespaceId: string,
    ...given: Parameters<HostVolumes["register"]>
  ): ReturnType<HostVolumes["register"]> {
    const admitted = this.ended.admit([namespaceId]);
    return admitted.ok ? this.host.volumes.register(...given) : admitted;
  }

  updateHostVolume(...given: Parameters<HostVolumes["update"]>): ReturnType<HostVolumes["update"]> {
    return this.host.volumes.update(...given);
  }

  deleteHostVolume(...given: Parameters<HostVolumes["delete"]>): ReturnType<HostVolumes["delete"]> {
    return this.host.volumes.delete(...given);
  }

  /** Outcome of a volume operation: see `HostVolumes.outcome`. */
  volumeOperation(...given: Parameters<HostVolumes["outcome"]>): Promise<Outcome | null> {
    return this.host.volumes.outcome(...given);
  }

  /** Reason why a volume operation has no outcome yet: see `HostVolumes.doubt`. */
  volumeDoubt(operation: string): string | null {
    return this.host.volumes.doubt(operation);
  }

  /** Volumes held by a node that are unknown here. */
  unknownVolumes(nodeId: string, held: readonly string[]): string[] {
    return this.host.states.unknownOn(nodeId, held);
  }

  // ---- sticky claims ----

  /** One page of claims, and the index of their table. */
  volumeClaims(query: ClaimQuery): ClaimPage & { readonly index: number } {
    return { ...this.host.claimStore.page(query), index: this.indexOf(VOLUME_CLAIM) };
  }

  deleteVolumeClaim(...given: Parameters<VolumeClaims["delete"]>): ReturnType<VolumeClaims["delete"]> {
    return this.host.claims.delete(...given);
  }
}
