import type { ClaimPage, ClaimQuery, VolumeClaimsApi } from "../../contracts/host-volumes.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { VolumeClaims } from "./claims.ts";
import { type ClaimStore, VOLUME_CLAIM } from "./store.ts";

/** RPC methods of `ClusterRegistry` about sticky claims. */
export class VolumeClaimMethods implements VolumeClaimsApi {
  readonly #claims: VolumeClaims;
  readonly #store: ClaimStore;
  readonly #indexes: TableIndexes;

  constructor(claims: VolumeClaims, store: ClaimStore, indexes: TableIndexes) {
    this.#claims = claims;
    this.#store = store;
    this.#indexes = indexes;
  }

  volumeClaims(query: ClaimQuery): ClaimPage & { readonly index: number } {
    return { ...this.#store.page(query), index: this.#indexes.of(VOLUME_CLAIM) };
  }

  deleteVolumeClaim(...given: Parameters<VolumeClaims["delete"]>): ReturnType<VolumeClaims["delete"]> {
    return this.#claims.delete(...given);
  }
}
