import type { CsiClaimMethod, CsiResultOf } from "@sallyport/agent-protocol";
import type { ClaimState, CsiClaim, CsiOperation, Topology } from "../../contracts/csi-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { type ClaimController, failure, nameOf } from "./claim-controller.ts";
import type { ForClaim } from "./claim-params.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import { CSI_OPERATION } from "./csi-operations.ts";
import type { Effects } from "./dispatcher.ts";
import type { Orphans } from "./orphans.ts";
import type { CsiSecrets } from "./secrets.ts";
import type { CsiVolumeStore } from "./volume-store.ts";

/**
 * Records the effects of completed operations on their claims. Read by the dispatcher, inside its transactions. Costs one
 * update of the claim, and wakes the controller for its next step.
 */
export class ClaimEffects implements Effects {
  constructor(
    private readonly claims: CsiClaimStore,
    private readonly store: CsiVolumeStore,
    private readonly orphans: Orphans,
    private readonly secrets: CsiSecrets,
    private readonly controller: ClaimController,
  ) {}

  topologiesOf({ namespace, volumeId }: CsiOperation): readonly Topology[] {
    return this.store.find({ namespace, id: volumeId })?.topologies ?? [];
  }

  mayStart({ id }: CsiOperation): Refusal | null {
    const isWanted = this.claims.waitingFor(id) !== null || this.orphans.isWaitingFor(id);
    return isWanted ? null : refuse("conflict", "the claim has ended");
  }

  succeeded(operation: CsiOperation, result: Readonly<Record<string, unknown>>): null {
    this.orphans.ended(operation.id, true);
    const claim = this.claims.waitingFor(operation.id);
    if (!claim) {
      this.#owe(operation);
      return null;
    }
    const method = operation.method as CsiClaimMethod;
    this.claims.update(claim, {
      ...this.#reached(method, result),
      operation: null,
      attempts: 0,
      refusal: null,
      due: Date.now(),
    });
    this.claims.touchResting(nameOf(claim), claim.nodeId);
    this.controller.emitChange(nameOf(claim), [{ table: CSI_OPERATION, row: [operation.id] }]);
    this.controller.soon();
    return null;
  }

  failed({ id }: CsiOperation, refusal: Refusal): void {
    this.orphans.ended(id, false);
    const claim = this.claims.waitingFor(id);
    if (!claim) return;
    this.claims.update(claim, { operation: null, ...failure(claim, refusal) });
    this.claims.touchResting(nameOf(claim), claim.nodeId);
    this.controller.refusalChanged(claim, refusal);
    this.controller.soon();
  }

  /** A late result counts only for a controller publish: the attachment has to be undone. */
  countsLate({ state, method, namespace, volumeId, change, nodeId: owner }: CsiOperation, reporter: string): boolean {
    if (method !== "csi.controller.publish" || (state === "done" && reporter === owner)) return false;
    const name = { namespace, id: volumeId };
    const here = this.claims.on(name, (change as ForClaim).nodeId);
    return this.store.find(name) !== null && here.every((claim) => !claim.attachAsked || isBeingDetached(claim));
  }

  /** Schedules the detach of an attachment whose claim no longer exists. */
  #owe({ method, namespace, volumeId, pluginId, change, params }: CsiOperation): void {
    if (method !== "csi.controller.publish") return;
    const { allocId, nodeId } = change as ForClaim;
    const name = { namespace, id: volumeId };
    const detaching = this.claims.on(name, nodeId).filter(isBeingDetached);
    if (detaching.length > 0) {
      // The order of attach and detach is unknown, so the volume is detached again.
      for (const claim of detaching) this.claims.update(claim, { operation: null, due: Date.now() });
      this.controller.soon();
      return;
    }
    const modes = { accessMode: "", attachmentMode: "" };
    const isNew = this.claims.insert(
      { namespace, volumeId, allocId, nodeId, mode: "read", ...modes, mount: null },
      Date.now(),
    );
    const claim = this.claims.find(name, allocId);
    if (!claim) return;
    this.claims.update(claim, { attachAsked: true, externalNodeId: params["externalNodeId"] as string });
    if (isNew) this.claims.update(claim, { state: "node-detached", pluginId });
    this.controller.soon();
  }

  /** The claim's row changes after a successful operation. */
  #reached(method: CsiClaimMethod, result: Readonly<Record<string, unknown>>) {
    const to = (state: ClaimState) => ({ state });
    switch (method) {
      case "csi.controller.publish": {
        const { publishContext } = result as CsiResultOf<typeof method>;
        const isEmpty = Object.keys(publishContext).length === 0;
        return {
          ...to("attached"),
          publishContext: isEmpty ? null : this.secrets.sealForClaim(publishContext),
        };
      }
      case "csi.node.publish":
        return { ...to("published"), path: (result as CsiResultOf<typeof method>).path };
      case "csi.node.detach":
        return { ...to("node-detached"), publishAsked: false, path: "" };
      case "csi.controller.unpublish":
        return { ...to("controller-detached"), attachAsked: false };
      case "csi.node.expand":
        return { owesExpansion: false };
    }
  }
}

/** A detach was sent to the controller and is not completed. */
const isBeingDetached = ({ state, operation }: CsiClaim): boolean => state === "node-detached" && operation !== null;
