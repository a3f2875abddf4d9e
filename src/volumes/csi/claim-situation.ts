import { type Refusal, refuse } from "../../result.ts";
import { refusedClaim } from "./admission.ts";
import type { Situation } from "./claim-step.ts";
import type { CsiClaim, CsiClaimStore } from "./claim-store.ts";
import type { CsiOperations } from "./operations.ts";
import type { CsiPlugin } from "./plugin.ts";
import type { CsiPlugins } from "./plugins.ts";
import { type CsiVolume, isSchedulable } from "./volume.ts";

interface Parts {
  readonly sql: SqlStorage;
  readonly claims: CsiClaimStore;
  readonly plugins: CsiPlugins;
  readonly operations: CsiOperations;
}

/** What rows say of a claim, its allocation, its node and its plugin. */
export class ClaimSituations {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @param claim with the modes that it has, or would have */
  of(claim: CsiClaim, volume: CsiVolume): Situation {
    const { claims, plugins } = this.#parts;
    const plugin = plugins.find(volume.pluginId);
    return {
      ...{ state: claim.state, attachAsked: claim.attachAsked, publishAsked: claim.publishAsked, nodeId: claim.nodeId },
      ...{ owesExpansion: claim.owesExpansion, isAsking: claim.operation !== null, live: this.isLive(claim) },
      refused: claim.state === "pending" ? this.#refused(claim, volume, plugin) : null,
      node: this.#node(claim, volume),
      attaches: (plugin?.controllerRequired ?? false) && plugins.mayAttach(volume.pluginId),
      others: claims.others(claim),
    };
  }

  #refused(claim: CsiClaim, volume: CsiVolume, plugin: CsiPlugin | null): Refusal | null {
    const { claims, plugins, operations } = this.#parts;
    const name = { namespace: volume.namespace, id: volume.id };
    if (operations.locking(volume.namespace, volume.id)?.method === "csi.controller.delete")
      return refuse("conflict", `volume ${volume.id} is being deleted`);
    const most = plugins.nodeInstance(volume.pluginId, claim.nodeId)?.NodeInfo?.["MaxVolumes"];
    return refusedClaim(claim, {
      ...{ id: volume.id, schedulable: isSchedulable(plugin), capabilities: volume.capabilities },
      holders: claims.holders(name),
      nodeIsFull: typeof most === "number" && most > 0 && claims.othersOn(claim.nodeId, volume.pluginId, name) >= most,
    });
  }

  #node({ nodeId }: CsiClaim, { pluginId }: CsiVolume): Situation["node"] {
    const { sql, plugins } = this.#parts;
    const [node] = sql
      .exec<{ origin: string; status: string }>("SELECT origin, status FROM nodes WHERE id = ?", nodeId)
      .toArray();
    if (!node || node.status === "down") return "gone";
    if (node.origin !== "agent") return "theirs";
    return plugins.nodeInstance(pluginId, nodeId)?.Healthy ? "ours" : "away";
  }

  /** Its allocation has not ended. One that is not known any more has. */
  isLive({ namespace, allocId }: Pick<CsiClaim, "namespace" | "allocId">): boolean {
    const sql = "SELECT 1 FROM reported WHERE topic = 'Allocation' AND namespace = ? AND id = ? AND terminal = 0";
    return this.#parts.sql.exec(sql, namespace, allocId).toArray().length > 0;
  }
}
