import type { CsiClaimsApi, Name, ReadClaim } from "../../../contracts/csi-volumes.ts";
import type { CsiClaimStore } from "../claim-store.ts";
import { showable } from "../claim-views.ts";
import type { CsiClaims } from "../claims.ts";
import type { CsiPlugins } from "../plugins.ts";
import type { CsiVolumeStore } from "../volume-store.ts";
import { remoteId } from "../volume-views.ts";

/** RPC methods of `ClusterRegistry` about claims on CSI volumes. */
export class CsiClaimMethods implements CsiClaimsApi {
  readonly #claims: CsiClaims;
  readonly #store: CsiClaimStore;
  readonly #volumes: CsiVolumeStore;
  readonly #plugins: CsiPlugins;

  constructor(claims: CsiClaims, store: CsiClaimStore, volumes: CsiVolumeStore, plugins: CsiPlugins) {
    this.#claims = claims;
    this.#store = store;
    this.#volumes = volumes;
    this.#plugins = plugins;
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

  csiClaims(name: Name, from: number, limit: number): ReadClaim[] {
    const volume = this.#volumes.find(name);
    return this.#store.of(name, from, limit).map((claim) => {
      const problems = (volume && this.#plugins.nodeInstance(volume.pluginId, claim.nodeId)?.VolumeProblems) ?? [];
      const own = problems.find(
        (each) => each.AllocID === claim.allocId && volume && each.ExternalID === remoteId(volume),
      );
      return { ...showable(claim), problem: own?.Reason ?? "" };
    });
  }
}
