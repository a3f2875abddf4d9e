import type { CsiClaimMethod } from "@sallyport/agent-protocol";
import type { ClaimState } from "../../contracts/csi-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { failedAt } from "./methods.ts";

/** What a claim's next step follows from. */
export interface Situation {
  readonly state: ClaimState;
  /** An operation for it is under way. */
  readonly isAsking: boolean;
  /** A controller was asked to attach the volume for it: what came of that or not, it has to be undone. */
  readonly attachAsked: boolean;
  /** Its node was asked to publish the volume. */
  readonly publishAsked: boolean;
  /** Its node has started again since, which takes mounts away. */
  readonly mountLost: boolean;
  /** The volume has grown, and its file system here has yet to. */
  readonly owesExpansion: boolean;
  /** Its allocation has not ended. */
  readonly live: boolean;
  /** Why it cannot be taken, while it is pending. */
  readonly refused: Refusal | null;
  /**
   * `ours`: an agent of ours is there, and the plugin well. `away`: it is not, or not well, and may be again. `down`: it does
   * not come back for now. `gone`: it is not known. `theirs`: somebody else mounts there, and is asked for nothing.
   */
  readonly node: "ours" | "theirs" | "away" | "down" | "gone";
  readonly nodeId: string;
  /** The plugin has controllers that attach volumes to nodes. */
  readonly attaches: boolean;
  /** Other claims of the volume on the node. */
  readonly others: {
    /** One of them may have it attached. */
    readonly attached: boolean;
    /** It is being attached or detached for one of them. */
    readonly busy: boolean;
  };
}

export type Step =
  /** Nothing, until something changes. */
  | { readonly kind: "rest" }
  /** Nothing, and that is worth knowing; `again`: try again after a while, too. */
  | { readonly kind: "wait"; readonly refusal: Refusal; readonly again: boolean }
  | { readonly kind: "become"; readonly state: ClaimState }
  /** Others on the node take care of it. */
  | { readonly kind: "leave-attached" }
  /** Nobody waits for its node any more, which takes it away when it is back. */
  | { readonly kind: "leave-published" }
  | { readonly kind: "ask"; readonly method: CsiClaimMethod }
  | { readonly kind: "free" };

const REST: Step = { kind: "rest" };
const ask = (method: CsiClaimMethod): Step => ({ kind: "ask", method });
const become = (state: ClaimState): Step => ({ kind: "become", state });

/** What happens to a claim next (docs/internals/wire/volumes.md). */
export function nextStep(now: Situation): Step {
  if (now.isAsking) return REST;
  switch (now.state) {
    case "pending":
      if (!now.live) return { kind: "free" };
      return now.refused ? { kind: "wait", refusal: now.refused, again: true } : become("taken");
    case "taken":
    case "attached":
    case "published":
      return now.live ? taking(now) : become("unpublishing");
    case "unpublishing":
      // Whoever else has the node by now cannot be asked.
      if (!now.publishAsked || now.node === "gone" || now.node === "theirs") return become("node-detached");
      if (now.node === "down") return { kind: "leave-published" };
      return now.node === "ours"
        ? ask("csi.node.detach")
        : { kind: "wait", refusal: isAway("csi.node.detach", now.nodeId), again: false };
    case "node-detached":
      if (!now.attachAsked) return become("controller-detached");
      if (now.others.attached) return { kind: "leave-attached" };
      return now.others.busy ? REST : ask("csi.controller.unpublish");
    case "controller-detached":
      return { kind: "free" };
  }
}

function taking({ state, node, nodeId, attaches, others, mountLost, owesExpansion }: Situation): Step {
  if (state === "published" && mountLost) return become("attached");
  if (node !== "ours") {
    return owesExpansion ? { kind: "wait", refusal: isAway("csi.node.expand", nodeId), again: false } : REST;
  }
  if (state === "attached") return ask("csi.node.publish");
  if (state === "published") return owesExpansion ? ask("csi.node.expand") : REST;
  if (!attaches) return become("attached");
  return others.busy ? REST : ask("csi.controller.publish");
}

const isAway = (method: CsiClaimMethod, nodeId: string): Refusal =>
  failedAt(method, refuse("unavailable", `node ${nodeId} is not there, or its plugin is not well`));
