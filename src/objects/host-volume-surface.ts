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
import type { HostVolumeParts } from "../volumes/host/host-volume-parts.ts";
import { HOST_VOLUME } from "../volumes/host/host-volume-store.ts";
import type { HostVolumes } from "../volumes/host/host-volumes.ts";
import { CsiSurface } from "./csi-surface.ts";

/** What of `ClusterRegistry` is about host volumes and sticky claims on them: their parts decide, this is their surface. */
export abstract class HostVolumeSurface extends CsiSurface {
  protected abstract readonly host: HostVolumeParts;

  /** One page of host volumes, and the index of their table. */
  hostVolumes(query: VolumeQuery): VolumePage & { readonly index: number } {
    return { ...this.host.store.page(query), index: this.indexOf(HOST_VOLUME) };
  }

  /** Whether a host volume names this plugin. */
  hasHostVolumesOf(pluginId: string): boolean {
    return this.host.store.hasPlugin(pluginId);
  }

  readHostVolume(id: string): FoundVolume | null {
    return this.host.volumes.read(id);
  }

  /** @param namespaceId the identity of the volume's namespace, which must not have ended */
  createHostVolume(
    namespaceId: string,
    ...given: Parameters<HostVolumes["create"]>
  ): ReturnType<HostVolumes["create"]> {
    const admitted = this.ended.admit([namespaceId]);
    return admitted.ok ? this.host.volumes.create(...given) : admitted;
  }

  /** As `createHostVolume`. */
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

  /** How an operation on a volume has ended: see `HostVolumes.outcome`. */
  volumeOperation(...given: Parameters<HostVolumes["outcome"]>): Promise<Outcome | null> {
    return this.host.volumes.outcome(...given);
  }

  /** Why an operation on a volume has no outcome yet: see `HostVolumes.doubt`. */
  volumeDoubt(operation: string): string | null {
    return this.host.volumes.doubt(operation);
  }

  /** Which of these volumes of a node nobody knows here. */
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
