import { type ClaimNode, claimNode, hasNode } from "../../cluster/nodes/view.ts";
import { isTerminal } from "../../cluster/reports/view.ts";
import type { CsiClaim, CsiPlugin, CsiVolume } from "../../contracts/csi-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { admissionRefusal } from "./admission.ts";
import type { ClaimContext } from "./claim-state-machine.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import type { CsiOperations } from "./csi-operations.ts";
import type { CsiPlugins } from "./plugins.ts";
import { isSchedulable } from "./volume-views.ts";

/**
 * Reads the context of a claim: its allocation, node, plugin and the other claims of the volume. Costs a few indexed
 * reads.
 */
export class ClaimContexts {
  constructor(
    private readonly sql: SqlStorage,
    private readonly claims: CsiClaimStore,
    private readonly plugins: CsiPlugins,
    private readonly operations: CsiOperations,
  ) {}

  /** @param claim with its current or prospective modes */
  of(claim: CsiClaim, volume: CsiVolume): ClaimContext {
    const plugin = this.plugins.find(volume.pluginId);
    const node = this.#node(claim);
    return {
      state: claim.state,
      attachAsked: claim.attachAsked,
      publishAsked: claim.publishAsked,
      nodeId: claim.nodeId,
      owesExpansion: claim.owesExpansion,
      hasOperation: claim.operation !== null,
      live: this.isLive(claim),
      refused: claim.state === "pending" ? this.#refused(claim, volume, plugin) : null,
      node: this.#place(node, claim, volume),
      mountLost: isRestarted(claim.boot, node?.boot ?? ""),
      attaches: (plugin?.controllerRequired ?? false) && this.plugins.mayAttach(volume.pluginId),
      others: this.claims.others(claim),
    };
  }

  #refused(claim: CsiClaim, volume: CsiVolume, plugin: CsiPlugin | null): Refusal | null {
    const name = { namespace: volume.namespace, id: volume.id };
    if (this.operations.locking(volume.namespace, volume.id)?.method === "csi.controller.delete")
      return refuse("conflict", `volume ${volume.id} is being deleted`);
    const most = this.plugins.nodeInstance(volume.pluginId, claim.nodeId)?.NodeInfo?.["MaxVolumes"];
    return admissionRefusal(claim, {
      id: volume.id,
      schedulable: isSchedulable(plugin),
      capabilities: volume.capabilities,
      holders: this.claims.holders(name),
      nodeIsFull:
        typeof most === "number" && most > 0 && this.claims.othersOn(claim.nodeId, volume.pluginId, name) >= most,
    });
  }

  /** The boot id of the claim's node; empty when unknown. */
  bootOf(claim: CsiClaim): string {
    return this.#node(claim)?.boot ?? "";
  }

  #place(node: ClaimNode | null, { nodeId }: CsiClaim, { pluginId }: CsiVolume): ClaimContext["node"] {
    if (!node) return "gone";
    if (node.origin !== "agent") return node.status === "down" ? "gone" : "theirs";
    if (node.status === "down") return "down";
    return this.plugins.nodeInstance(pluginId, nodeId)?.Healthy ? "ours" : "away";
  }

  #node({ nodeId }: CsiClaim): ClaimNode | null {
    return claimNode(this.sql, nodeId);
  }

  knowsNode(nodeId: string): boolean {
    return hasNode(this.sql, nodeId);
  }

  /** Whether the allocation is not terminal. An unknown allocation counts as terminal. */
  isLive({ namespace, allocId }: Pick<CsiClaim, "namespace" | "allocId">): boolean {
    return isTerminal(this.sql, namespace, allocId) === false;
  }
}

/** Whether two known boot ids differ. An unknown boot id is no evidence of a restart. */
const isRestarted = (then: string, now: string): boolean => then !== "" && now !== "" && then !== now;
