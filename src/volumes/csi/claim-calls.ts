import type { CsiClaimMethod } from "@sallyport/agent-protocol";
import type { CsiClaim, CsiVolume, Texts } from "../../contracts/csi-volumes.ts";
import type { MountOptions } from "../../contracts/volume-requests.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import { claimParams, forClaim } from "./claim-params.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import { controllersFor, targetOf } from "./controllers.ts";
import type { CsiDispatcher } from "./dispatcher.ts";
import { NEEDS } from "./methods.ts";
import type { Orphans } from "./orphans.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiSecrets } from "./secrets.ts";
import { remoteId } from "./volume-views.ts";

/**
 * Sends the operations of claims to their plugins, for `ClaimController`. An operation costs one row and one outbox
 * row.
 */
export class ClaimCalls {
  constructor(
    private readonly claims: CsiClaimStore,
    private readonly plugins: CsiPlugins,
    private readonly secrets: CsiSecrets,
    private readonly dispatcher: CsiDispatcher,
    private readonly orphans: Orphans,
  ) {}

  /** The provider's id of the claim's node. */
  externalNodeId({ nodeId }: CsiClaim, { pluginId }: CsiVolume): string {
    return this.plugins.externalNodeId(pluginId, nodeId);
  }

  /** Leaves the volume published on a node that is down, as an orphan; inside a transaction. */
  leavePublished(claim: CsiClaim, volume: CsiVolume): void {
    this.orphans.add(claim, remoteId(volume));
  }

  /** Stores and sends the operation of a claim's next step; inside a transaction. @returns its id */
  begin(method: CsiClaimMethod, given: CsiClaim, volume: CsiVolume): Result<string> {
    return refuseIfSealed((): Result<string> => {
      const externalNodeId = given.externalNodeId || this.externalNodeId(given, volume);
      if (given.externalNodeId === "") this.claims.update(given, { externalNodeId });
      const claim = { ...given, externalNodeId };
      const isController = method.startsWith("csi.controller.");
      // In a ControllerUnpublishVolume call, an empty node id means all nodes.
      if (isController && externalNodeId === "") return refuse("conflict", `missing external node ID: ${claim.nodeId}`);
      const able = isController
        ? controllersFor(this.plugins, volume.pluginId, NEEDS[method], targetOf({}, volume.topologies))
        : ok([claim.nodeId] as const);
      if (!able.ok) return able;
      const params = claimParams(method, claim, this.secrets.opened(volume), {
        mount: claim.mount && (this.secrets.openOfClaim(claim.mount) as MountOptions),
        publishContext: claim.publishContext ? (this.secrets.openOfClaim(claim.publishContext) as Texts) : {},
      });
      const { namespace, id: volumeId, pluginId } = volume;
      const begun = this.dispatcher.begin(
        {
          pluginId,
          namespace,
          volumeId,
          nodeId: able.value[0],
          locks: false,
          method,
          params,
          request: `claim ${crypto.randomUUID()}`,
          change: forClaim(claim),
        },
        this.secrets.of(volume),
      );
      if (begun.ok && method === "csi.node.publish") this.orphans.forget(claim);
      return begun;
    });
  }
}
