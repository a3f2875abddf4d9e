/*
 * The states of a claim on a CSI volume and the operation of each step. Rules: docs/internals/wire/volumes.md.
 *
 *   pending --admitted--> taken --controller.publish--> attached --node.publish--> published
 *                           |                            |    ^                       |
 *                           |                            |    +--- node restarted ----+
 *                           +------------+---------------+----------------------------+
 *                                        | allocation terminal
 *                                        v
 *                  unpublishing --node.detach--> node-detached
 *                                                     | controller.unpublish
 *                                                     v
 *                                            controller-detached --> row removed
 *
 * A pending claim of a terminal allocation is removed at once. A plugin without attach support skips both controller
 * steps. A failed step is repeated with backoff and keeps its state.
 */

import type { CsiClaimMethod } from "@sallyport/agent-protocol";
import type { ClaimState } from "../../contracts/csi-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { failedAt } from "./methods.ts";

/** The input of `nextStep`: a claim with its allocation, node, plugin and the other claims on the node. */
export interface ClaimContext {
  readonly state: ClaimState;
  /** An operation of the claim is running. */
  readonly hasOperation: boolean;
  /** A controller publish was sent; whatever its outcome, it has to be undone. */
  readonly attachAsked: boolean;
  /** A node publish was sent. */
  readonly publishAsked: boolean;
  /** The node has restarted since the publish, which removes mounts. */
  readonly mountLost: boolean;
  /** The volume was expanded; the file system on this node was not yet. */
  readonly owesExpansion: boolean;
  /** The allocation is not terminal. */
  readonly live: boolean;
  /** Why a pending claim is not admitted. */
  readonly refused: Refusal | null;
  /**
   * `ours`: the agent is connected and the plugin healthy. `away`: one of them is not, and may return. `down`: the
   * node is down. `gone`: the node is unknown. `theirs`: an external client mounts there; no operations are sent.
   */
  readonly node: "ours" | "theirs" | "away" | "down" | "gone";
  readonly nodeId: string;
  /** The plugin has controllers with PUBLISH_UNPUBLISH_VOLUME. */
  readonly attaches: boolean;
  /** Other claims of the volume on the node. */
  readonly others: {
    /** One of them may have the volume attached. */
    readonly attached: boolean;
    /** An attach or detach of one of them is running. */
    readonly busy: boolean;
  };
}

export type Step =
  /** No change until the context changes. */
  | { readonly kind: "idle" }
  /** No change; the refusal is shown. `again`: also retry after a backoff. */
  | { readonly kind: "wait"; readonly refusal: Refusal; readonly again: boolean }
  | { readonly kind: "transition"; readonly state: ClaimState }
  /** Another claim on the node detaches the volume. */
  | { readonly kind: "leave-attached" }
  /** The node is down: an orphan record unpublishes the volume when the node returns. */
  | { readonly kind: "leave-published" }
  | { readonly kind: "operate"; readonly method: CsiClaimMethod }
  | { readonly kind: "remove" };

const IDLE: Step = { kind: "idle" };
const operate = (method: CsiClaimMethod): Step => ({ kind: "operate", method });
const transition = (state: ClaimState): Step => ({ kind: "transition", state });

/** The next step of a claim: a pure function, evaluated whenever the claim is due. */
export function nextStep(now: ClaimContext): Step {
  if (now.hasOperation) return IDLE;
  switch (now.state) {
    case "pending":
      if (!now.live) return { kind: "remove" };
      return now.refused ? { kind: "wait", refusal: now.refused, again: true } : transition("taken");
    case "taken":
    case "attached":
    case "published":
      return now.live ? acquire(now) : transition("unpublishing");
    case "unpublishing":
      // An external client on the node receives no operations.
      if (!now.publishAsked || now.node === "gone" || now.node === "theirs") return transition("node-detached");
      if (now.node === "down") return { kind: "leave-published" };
      return now.node === "ours"
        ? operate("csi.node.detach")
        : { kind: "wait", refusal: isAway("csi.node.detach", now.nodeId), again: false };
    case "node-detached":
      if (!now.attachAsked) return transition("controller-detached");
      if (now.others.attached) return { kind: "leave-attached" };
      return now.others.busy ? IDLE : operate("csi.controller.unpublish");
    case "controller-detached":
      return { kind: "remove" };
  }
}

function acquire({ state, node, nodeId, attaches, others, mountLost, owesExpansion }: ClaimContext): Step {
  if (state === "published" && mountLost) return transition("attached");
  if (node !== "ours") {
    return owesExpansion ? { kind: "wait", refusal: isAway("csi.node.expand", nodeId), again: false } : IDLE;
  }
  if (state === "attached") return operate("csi.node.publish");
  if (state === "published") return owesExpansion ? operate("csi.node.expand") : IDLE;
  if (!attaches) return transition("attached");
  return others.busy ? IDLE : operate("csi.controller.publish");
}

const isAway = (method: CsiClaimMethod, nodeId: string): Refusal =>
  failedAt(method, refuse("unavailable", `node ${nodeId} is not there, or its plugin is not well`));
