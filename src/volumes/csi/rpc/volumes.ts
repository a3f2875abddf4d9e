import type {
  CsiVolumePage,
  CsiVolumeQuery,
  CsiVolumesApi,
  FoundCsiVolume,
  Name,
} from "../../../contracts/csi-volumes.ts";
import type { TableIndexes } from "../../../platform/durable/blocking/table-indexes.ts";
import type { EndedNamespaces } from "../../../platform/durable/ended-namespaces.ts";
import type { CsiVolumes } from "../csi-volumes.ts";
import { CSI_VOLUME, type CsiVolumeStore } from "../volume-store.ts";

/** RPC methods of `ClusterRegistry` about CSI volumes. */
export class CsiVolumeMethods implements CsiVolumesApi {
  readonly #volumes: CsiVolumes;
  readonly #store: CsiVolumeStore;
  readonly #ended: EndedNamespaces;
  readonly #indexes: TableIndexes;

  constructor(volumes: CsiVolumes, store: CsiVolumeStore, ended: EndedNamespaces, indexes: TableIndexes) {
    this.#volumes = volumes;
    this.#store = store;
    this.#ended = ended;
    this.#indexes = indexes;
  }

  csiVolumes(query: CsiVolumeQuery): CsiVolumePage & { readonly index: number } {
    return { ...this.#store.page(query), index: this.#indexes.of(CSI_VOLUME) };
  }

  readCsiVolume(name: Name): { readonly found: FoundCsiVolume | null; readonly index: number } {
    return { found: this.#store.read(name), index: this.#indexes.of(CSI_VOLUME) };
  }

  validateCsiVolume(...given: Parameters<CsiVolumes["validate"]>): ReturnType<CsiVolumes["validate"]> {
    return this.#volumes.validate(...given);
  }

  growCsiVolume(...given: Parameters<CsiVolumes["grow"]>): ReturnType<CsiVolumes["grow"]> {
    return this.#volumes.grow(...given);
  }

  modifyCsiVolume(...given: Parameters<CsiVolumes["modify"]>): ReturnType<CsiVolumes["modify"]> {
    return this.#volumes.modify(...given);
  }

  createCsiVolume(namespaceId: string, ...given: Parameters<CsiVolumes["create"]>): ReturnType<CsiVolumes["create"]> {
    const admitted = this.#ended.admit([namespaceId]);
    return admitted.ok ? this.#volumes.create(...given) : admitted;
  }

  async commitCsiVolumes(
    namespaceIds: readonly string[],
    ...given: Parameters<CsiVolumes["commit"]>
  ): ReturnType<CsiVolumes["commit"]> {
    const admitted = this.#ended.admit(namespaceIds);
    return admitted.ok ? this.#volumes.commit(...given) : admitted;
  }

  deregisterCsiVolume(...given: Parameters<CsiVolumes["deregister"]>): ReturnType<CsiVolumes["deregister"]> {
    return this.#volumes.deregister(...given);
  }

  deleteCsiVolume(...given: Parameters<CsiVolumes["delete"]>): ReturnType<CsiVolumes["delete"]> {
    return this.#volumes.delete(...given);
  }
}
