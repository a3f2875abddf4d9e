import { describe, expect, it } from "vitest";
import { CLAIM_STATES, type ClaimState } from "../../contracts/csi-volumes.ts";
import { refuse } from "../../lib/result.ts";
import { type ClaimContext, nextStep } from "./claim-state-machine.ts";

const NODES = ["ours", "theirs", "away", "down", "gone"] as const;

const contextOf = (state: ClaimState, more: Partial<ClaimContext> = {}): ClaimContext => ({
  state,
  hasOperation: false,
  attachAsked: false,
  publishAsked: false,
  mountLost: false,
  owesExpansion: false,
  live: true,
  refused: null,
  node: "ours",
  nodeId: "N",
  attaches: true,
  others: { attached: false, busy: false },
  ...more,
});

/** A step as text. */
function step(state: ClaimState, more: Partial<ClaimContext> = {}): string {
  const next = nextStep(contextOf(state, more));
  if (next.kind === "operate") return next.method.replace("csi.", "");
  return next.kind === "transition" ? next.state : next.kind;
}

const ENDED = { live: false, attachAsked: true, publishAsked: true };
const otherAttached = { others: { attached: true, busy: false } };
const otherBusy = { others: { attached: false, busy: true } };

describe("nextStep", () => {
  it.each<[what: string, state: ClaimState, more: Partial<ClaimContext>, next: string]>([
    ["admitted", "pending", {}, "taken"],
    ["refused", "pending", { refused: refuse("conflict", "full") }, "wait"],
    ["its allocation ended before it was taken", "pending", { live: false }, "remove"],
    ["on a node of ours", "taken", {}, "controller.publish"],
    ["of a plugin that attaches nothing", "taken", { attaches: false }, "attached"],
    ["while another claim there is attached or detached", "taken", otherBusy, "idle"],
    ["while another claim there has it attached", "taken", otherAttached, "controller.publish"],
    ["on a node of an external client", "taken", { node: "theirs" }, "idle"],
    ["on a node that is away", "taken", { node: "away" }, "idle"],
    ["on a node that is gone", "taken", { node: "gone" }, "idle"],
    ["attached", "attached", {}, "node.publish"],
    ["attached, and its node is away", "attached", { node: "away" }, "idle"],
    ["published", "published", {}, "idle"],
    ["published, and the volume has grown", "published", { owesExpansion: true }, "node.expand"],
    ["as before, and its node is away", "published", { owesExpansion: true, node: "away" }, "wait"],
    ["published, and its node has started again", "published", { mountLost: true }, "attached"],
    ["as before, and its node is not back yet", "published", { mountLost: true, node: "away" }, "attached"],
    ["ended when its node had started again", "published", { ...ENDED, mountLost: true }, "unpublishing"],
    ["ended when it was taken", "taken", ENDED, "unpublishing"],
    ["ended when it was attached", "attached", ENDED, "unpublishing"],
    ["ended when it was published", "published", ENDED, "unpublishing"],
    ["its node was asked for something", "unpublishing", ENDED, "node.detach"],
    ["its node was asked for nothing", "unpublishing", { ...ENDED, publishAsked: false }, "node-detached"],
    ["its node is gone", "unpublishing", { ...ENDED, node: "gone" }, "node-detached"],
    ["its node is down", "unpublishing", { ...ENDED, node: "down" }, "leave-published"],
    ["its node is down, and was asked for nothing", "unpublishing", { live: false, node: "down" }, "node-detached"],
    ["its node is away", "unpublishing", { ...ENDED, node: "away" }, "wait"],
    ["a controller was asked", "node-detached", ENDED, "controller.unpublish"],
    [
      "a controller was asked, and the node is gone",
      "node-detached",
      { ...ENDED, node: "gone" },
      "controller.unpublish",
    ],
    ["no controller was asked", "node-detached", { live: false }, "controller-detached"],
    ["another claim there has it attached", "node-detached", { ...ENDED, ...otherAttached }, "leave-attached"],
    ["another claim there is being attached", "node-detached", { ...ENDED, ...otherBusy }, "idle"],
    ["everything is undone", "controller-detached", { live: false }, "remove"],
    ["reported anew while it is released: first to the end", "unpublishing", { publishAsked: true }, "node.detach"],
  ])("%s: %s", (_what, state, more, next) => {
    expect(step(state, more)).toBe(next);
  });

  it("is idle while an operation runs, in every context", () => {
    for (const state of CLAIM_STATES)
      for (const live of [true, false]) expect(step(state, { hasOperation: true, live })).toBe("idle");
  });

  it("calls no controller while a call of another claim runs on the node, in any context", () => {
    for (const state of CLAIM_STATES) {
      for (const bits of Array.from({ length: 32 }, (_, at) => at)) {
        const [live, attachAsked, publishAsked, mountLost, attached] = [1, 2, 4, 8, 16].map((bit) => (bits & bit) > 0);
        const more = { live, attachAsked, publishAsked, mountLost, others: { attached, busy: true } };
        expect(step(state, more as Partial<ClaimContext>), JSON.stringify(more)).not.toMatch(
          /^controller\.(un)?publish$/,
        );
      }
    }
  });

  it("releases a claim from every state when its allocation is terminal and undoes each operation once", () => {
    for (const from of CLAIM_STATES) {
      for (const node of ["ours", "theirs", "gone"] as const) {
        for (const attaches of [true, false]) {
          const asked = { attachAsked: from !== "pending" && attaches, publishAsked: from === "published" };
          const now = { ...contextOf(from, { live: false, node, attaches, ...asked }) };
          const steps: string[] = [];
          for (let at = 0; steps.at(-1) !== "remove" && at < 12; at++) {
            const next = nextStep(now);
            steps.push(next.kind === "operate" ? next.method : next.kind);
            if (next.kind === "transition") Object.assign(now, { state: next.state });
            if (next.kind === "operate" && next.method === "csi.node.detach")
              Object.assign(now, { state: "node-detached", publishAsked: false });
            if (next.kind === "operate" && next.method === "csi.controller.unpublish")
              Object.assign(now, { state: "controller-detached", attachAsked: false });
          }
          expect(steps.at(-1), `${from} ${node} ${steps}`).toBe("remove");
          const detaches = asked.attachAsked && from !== "controller-detached";
          expect(steps.filter((each) => each === "csi.controller.unpublish")).toHaveLength(detaches ? 1 : 0);
        }
      }
    }
  });

  it("sends no operation to a node of an external client", () => {
    for (const state of CLAIM_STATES) {
      for (const node of NODES.filter((each) => each !== "ours"))
        for (const live of [true, false])
          expect(step(state, { ...ENDED, owesExpansion: true, live, node })).not.toMatch(
            /^node\.(?:publish|detach|expand)/,
          );
    }
  });
});
