import type { FoundVolume, HostVolumesApi, Outcome, VolumePage, VolumeQuery } from "../../contracts/host-volumes.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { EndedNamespaces } from "../../platform/durable/ended-namespaces.ts";
import type { HostVolumes } from "./host-volumes.ts";
import type { VolumeStates } from "./volume-states.ts";
import { HOST_VOLUME, type HostVolumeStore } from "./volume-store.ts";

/** RPC methods of `ClusterRegistry` about host volumes. */
export class HostVolumeMethods implements HostVolumesApi {
  readonly #volumes: HostVolumes;
  readonly #store: HostVolumeStore;
  readonly #states: VolumeStates;
  readonly #ended: EndedNamespaces;
  readonly #indexes: TableIndexes;

  constructor(
    volumes: HostVolumes,
    store: HostVolumeStore,
    states: VolumeStates,
    ended: EndedNamespaces,
    indexes: TableIndexes,
  ) {
    this.#volumes = volumes;
    this.#store = store;
    this.#states = states;
    this.#ended = ended;
    this.#indexes = indexes;
  }

  hostVolumes(query: VolumeQuery): VolumePage & { readonly index: number } {
    return { ...this.#store.page(query), index: this.#indexes.of(HOST_VOLUME) };
  }

  hasHostVolumesOf(pluginId: string): boolean {
    return this.#store.hasPlugin(pluginId);
  }

  readHostVolume(id: string): FoundVolume | null {
    return this.#volumes.read(id);
  }

  createHostVolume(
    namespaceId: string,
    ...given: Parameters<HostVolumes["create"]>
  ): ReturnType<HostVolumes["create"]> {
    const admitted = this.#ended.admit([namespaceId]);
    return admitted.ok ? this.#volumes.create(...given) : admitted;
  }

  registerHostVolume(
    namespaceId: string,
    ...given: Parameters<HostVolumes["register"]>
  ): ReturnType<HostVolumes["register"]> {
    const admitted = this.#ended.admit([namespaceId]);
    return admitted.ok ? this.#volumes.register(...given) : admitted;
  }

  updateHostVolume(...given: Parameters<HostVolumes["update"]>): ReturnType<HostVolumes["update"]> {
    return this.#volumes.update(...given);
  }

  deleteHostVolume(...given: Parameters<HostVolumes["delete"]>): ReturnType<HostVolumes["delete"]> {
    return this.#volumes.delete(...given);
  }

  volumeOperation(...given: Parameters<HostVolumes["outcome"]>): Promise<Outcome | null> {
    return this.#volumes.outcome(...given);
  }

  leaveVolumeOperation(operation: string): void {
    this.#volumes.leave(operation);
  }

  volumeDoubt(operation: string): string | null {
    return this.#volumes.doubt(operation);
  }

  unknownVolumes(nodeId: string, held: readonly string[]): string[] {
    return this.#states.unknownOn(nodeId, held);
  }
}
