import { BOOT } from "../../cluster/nodes/view.ts";
import type { Name } from "../../contracts/csi-volumes.ts";
import type { Node } from "../../contracts/node.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import { type ChangeSet, NO_CHANGES, type NodeFollower } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import type { ClaimContexts } from "./claim-context.ts";
import type { ClaimController } from "./claim-controller.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import { holder, inUse } from "./claim-views.ts";
import type { CsiVolumeStore } from "./volume-store.ts";

/**
 * Claims on CSI volumes: the triggers that make claims due, and the queries of users. `claim-controller.ts` moves
 * claims between their states, `claim-effects.ts` records completed operations.
 */
export class CsiClaims implements NodeFollower {
  constructor(
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly claims: CsiClaimStore,
    private readonly contexts: ClaimContexts,
    private readonly store: CsiVolumeStore,
    private readonly controller: ClaimController,
  ) {}

  /** Makes claims of a new or changed volume due; inside a transaction. */
  volumeCreated(name: Name): void {
    if (this.claims.touchVolume(name)) this.controller.soon();
  }

  /** Makes claims due when a node's status, boot id or plugins change. */
  nodeChanged(id: string, before: Node | null, after: Node | null): ChangeSet {
    const claimedState = (node: Node | null) =>
      node && JSON.stringify([node.Status, node.Attributes[BOOT], node.CSINodePlugins, node.CSIControllerPlugins]);
    if (claimedState(before) === claimedState(after)) return NO_CHANGES;
    const touched = [
      this.claims.touchNode(id),
      ...(after?.Status === "ready" ? pluginsOf(after).map((pluginId) => this.claims.touchRefused(pluginId)) : []),
    ];
    if (touched.includes(true)) this.controller.soon();
    return NO_CHANGES;
  }

  /** Why a volume is not removed; null when it is free. */
  heldBy(name: Name): Refusal | null {
    return inUse(name.id, this.claims.of(name));
  }

  /** As `heldBy`, restricted to claims of live allocations. */
  heldByLive(name: Name): Refusal | null {
    return inUse(name.id, this.claims.live(name));
  }

  /**
   * Removes the claims of terminal allocations of a forgotten volume without undoing them. Live claims wait for a
   * volume of that name; inside a transaction.
   */
  volumeRemoved(name: Name): void {
    this.claims.removeEnded(name);
  }

  /** Starts the release of a node's claims of terminal allocations; `detached` waits for it. */
  detach(name: Name, nodeId: string): Result<null> {
    if (!this.store.find(name)) return refuse("missing", "no such volume");
    const here = this.claims.on(name, nodeId);
    // A removed node may still hold claims; an unknown node without claims is an error.
    if (here.length === 0 && !this.contexts.knowsNode(nodeId)) {
      return refuse("missing", `no such node ${JSON.stringify(nodeId)}`);
    }
    const used = inUse(
      name.id,
      here.filter((claim) => this.contexts.isLive(claim)),
    );
    if (used) return used;
    // Refusals from earlier attempts are cleared: later ones belong to this attempt.
    const now = Date.now();
    this.publisher.commit(() => {
      for (const claim of here)
        this.claims.update(claim, { refusal: null, ...(claim.operation === null && { due: now }) });
    });
    this.controller.soon();
    return ok(null);
  }

  /** The outcome of `detach`: released, or the refusal; null when neither is known after `waitMs`. */
  detached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.controller.until(name, waitMs, last, () => {
      const here = this.claims.on(name, nodeId).filter((claim) => !this.contexts.isLive(claim));
      const stuck = here.find(({ refusal }) => refusal);
      return stuck?.refusal ?? (here.length === 0 ? ok(null) : null);
    });
  }

  /** Whether an expanded volume is expanded on all of its nodes, or the refusal; null as in `detached`. */
  expanded(name: Name, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.controller.until(name, waitMs, last, () => {
      const owing = this.claims.owing(name);
      const stuck = owing.filter(({ refusal }) => refusal);
      const [first] = stuck;
      if (!first?.refusal) return owing.length === 0 ? ok(null) : null;
      const owed = stuck.map((claim) => `owed to ${holder(claim)}`).join("; ");
      return refuse(
        first.refusal.reason,
        `volume ${name.id} has grown, but not yet its file system everywhere: ${owed}`,
      );
    });
  }

  /** Marks published claims for expansion; inside a transaction. @returns whether there are any */
  oweExpansion(name: Name): boolean {
    const isOwed = this.claims.oweExpansion(name);
    if (isOwed) this.controller.soon();
    return isOwed;
  }
}

const pluginsOf = ({ CSINodePlugins, CSIControllerPlugins }: Node): string[] => [
  ...new Set([...Object.keys(CSINodePlugins ?? {}), ...Object.keys(CSIControllerPlugins ?? {})]),
];
