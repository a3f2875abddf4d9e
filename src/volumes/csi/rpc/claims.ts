import type { CsiClaimsApi, Name, ShowableClaim } from "../../../contracts/csi-volumes.ts";
import type { CsiClaimStore } from "../claim-store.ts";
import { showable } from "../claim-views.ts";
import type { CsiClaims } from "../claims.ts";

/** RPC methods of `ClusterRegistry` about claims on CSI volumes. */
export class CsiClaimMethods implements CsiClaimsApi {
  readonly #claims: CsiClaims;
  readonly #store: CsiClaimStore;

  constructor(claims: CsiClaims, store: CsiClaimStore) {
    this.#claims = claims;
    this.#store = store;
  }

  detachCsiVolume(...given: Parameters<CsiClaims["detach"]>): ReturnType<CsiClaims["detach"]> {
    return this.#claims.detach(...given);
  }

  csiDetached(...given: Parameters<CsiClaims["detached"]>): ReturnType<CsiClaims["detached"]> {
    return this.#claims.detached(...given);
  }

  csiExpanded(...given: Parameters<CsiClaims["expanded"]>): ReturnType<CsiClaims["expanded"]> {
    return this.#claims.expanded(...given);
  }

  csiClaims(name: Name, from: number, limit: number): ShowableClaim[] {
    return this.#store.of(name, from, limit).map(showable);
  }
}
