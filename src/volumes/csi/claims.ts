import type { CsiClaimMethod, CsiResultOf } from "@sallyport/agent-protocol";
import { NOTHING, type NodeFollower, type Told } from "../../contracts/change-set.ts";
import type { ClaimState, CsiClaim, CsiOperation, Name } from "../../contracts/csi-volumes.ts";
import type { Node } from "../../contracts/node.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { holder, inUse } from "./claim.ts";
import { BOOT } from "./claim-context.ts";
import { type ClaimWalk, failure, nameOf, type WalkParts } from "./claim-controller.ts";
import type { ForClaim } from "./claim-params.ts";
import { CSI_OPERATION } from "./operations.ts";
import type { Effects } from "./work.ts";

interface Parts extends WalkParts {
  readonly walk: ClaimWalk;
}

/**
 * Claims on CSI volumes (docs/internals/wire/volumes.md), apart from how they walk: what sets them going, what users ask about
 * them, and what comes of operations.
 */
export class CsiClaims implements Effects, NodeFollower {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  // ---- what sets claims going ----

  /** A volume is there that claims may have waited for; inside a transaction. */
  volumeMade(name: Name): void {
    if (this.#parts.claims.touchVolume(name)) this.#parts.walk.soon();
  }

  /** A node is ready, down, gone, or its plugins are not what they were. */
  nodeChanged(before: Node | null, after: Node | null): Told {
    const { claims } = this.#parts;
    const facts = (node: Node | null) =>
      node && JSON.stringify([node.Status, node.Attributes[BOOT], node.CSINodePlugins, node.CSIControllerPlugins]);
    if (facts(before) === facts(after)) return NOTHING;
    const touched = [
      claims.touchNode(after?.ID ?? before?.ID ?? ""),
      ...(after?.Status === "ready" ? pluginsOf(after).map((id) => claims.touchRefused(id)) : []),
    ];
    if (touched.includes(true)) this.#parts.walk.soon();
    return NOTHING;
  }

  // ---- what users ask for ----

  /** Why a volume cannot be removed; null when it can. */
  heldBy(name: Name): Refusal | null {
    return inUse(name.id, this.#parts.claims.of(name));
  }

  /** As `heldBy`, but for claims of allocations that have not ended. */
  heldByLive(name: Name): Refusal | null {
    return inUse(name.id, this.#parts.claims.live(name));
  }

  /** A volume is gone, and nobody is asked to undo anything; who still wants one of its name waits. Inside a transaction. */
  volumeGone(name: Name): void {
    this.#parts.claims.removeEnded(name);
  }

  /** Releases now what allocations that have ended hold on a node: see `detached`. */
  detach(name: Name, nodeId: string): Result<null> {
    const { claims, store, journal } = this.#parts;
    if (!store.find(name)) return refuse("missing", "no such volume");
    const here = claims.on(name, nodeId);
    // A node that is gone may still hold claims; one that was never here holds none.
    if (here.length === 0 && !this.#parts.situations.knowsNode(nodeId)) {
      return refuse("missing", `no such node ${JSON.stringify(nodeId)}`);
    }
    const used = inUse(
      name.id,
      here.filter((claim) => this.#parts.situations.isLive(claim)),
    );
    if (used) return used;
    // What fails from here on is this try's failure.
    const now = Date.now();
    journal.commit(() => {
      for (const claim of here) claims.update(claim, { refusal: null, ...(claim.operation === null && { due: now }) });
    });
    this.#parts.walk.soon();
    return ok(null);
  }

  /** How that has ended: freed, or why not yet; null when neither is known after `waitMs`. */
  detached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#parts.walk.until(name, waitMs, last, () => {
      const here = this.#parts.claims.on(name, nodeId).filter((claim) => !this.#parts.situations.isLive(claim));
      const stuck = here.find(({ refusal }) => refusal);
      return stuck?.refusal ?? (here.length === 0 ? ok(null) : null);
    });
  }

  /** Whether a volume that has grown has done so wherever it is used, or why not yet; null as `detached`. */
  expanded(name: Name, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#parts.walk.until(name, waitMs, last, () => {
      const owing = this.#parts.claims.owing(name);
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

  /** A volume has grown, and its nodes have to make it so; inside a transaction. @returns whether any has to */
  oweExpansion(name: Name): boolean {
    const isOwed = this.#parts.claims.oweExpansion(name);
    if (isOwed) this.#parts.walk.soon();
    return isOwed;
  }

  // ---- what comes of operations ----

  mayStart({ id }: CsiOperation): Refusal | null {
    const { claims, leftovers } = this.#parts;
    const isWanted = claims.waitingFor(id) !== null || leftovers.isWaitingFor(id);
    return isWanted ? null : refuse("conflict", "nobody waits for it any more");
  }

  succeeded(operation: CsiOperation, result: Readonly<Record<string, unknown>>): null {
    const { claims, leftovers } = this.#parts;
    leftovers.ended(operation.id, true);
    const claim = claims.waitingFor(operation.id);
    if (!claim) {
      this.#owe(operation);
      return null;
    }
    const method = operation.method as CsiClaimMethod;
    claims.update(claim, {
      ...this.#reached(method, result),
      ...{ operation: null, attempts: 0, refusal: null, due: Date.now() },
    });
    claims.touchResting(nameOf(claim), claim.nodeId);
    this.#parts.walk.tell(nameOf(claim), [{ table: CSI_OPERATION, row: [operation.id] }]);
    this.#parts.walk.soon();
    return null;
  }

  failed({ id }: CsiOperation, refusal: Refusal): void {
    const { claims, leftovers } = this.#parts;
    leftovers.ended(id, false);
    const claim = claims.waitingFor(id);
    if (!claim) return;
    claims.update(claim, { operation: null, ...failure(claim, refusal) });
    claims.touchResting(nameOf(claim), claim.nodeId);
    this.#parts.walk.see(claim, refusal);
    this.#parts.walk.soon();
  }

  /** It has ended before: only what a controller attached after all counts, as somebody has to detach it. */
  countsLate({ state, method, namespace, volumeId, change, nodeId: counted }: CsiOperation, teller: string): boolean {
    const { claims, store } = this.#parts;
    if (method !== "csi.controller.publish" || (state === "done" && teller === counted)) return false;
    const name = { namespace, id: volumeId };
    const here = claims.on(name, (change as ForClaim).nodeId);
    return store.find(name) !== null && here.every((claim) => !claim.attachAsked || isBeingDetached(claim));
  }

  /** What a controller attached for a claim that nobody waits with any more is detached again. */
  #owe({ method, namespace, volumeId, pluginId, change, params }: CsiOperation): void {
    if (method !== "csi.controller.publish") return;
    const { claims } = this.#parts;
    const { allocId, nodeId } = change as ForClaim;
    const name = { namespace, id: volumeId };
    const detaching = claims.on(name, nodeId).filter(isBeingDetached);
    if (detaching.length > 0) {
      // Nobody knows which of the two came first, so it is detached once more.
      for (const claim of detaching) claims.update(claim, { operation: null, due: Date.now() });
      this.#parts.walk.soon();
      return;
    }
    const modes = { accessMode: "", attachmentMode: "" };
    const isNew = claims.insert(
      { namespace, volumeId, allocId, nodeId, mode: "read", ...modes, mount: null },
      Date.now(),
    );
    const claim = claims.find(name, allocId);
    if (!claim) return;
    claims.update(claim, { attachAsked: true, externalNodeId: params["externalNodeId"] as string });
    if (isNew) claims.update(claim, { state: "node-detached", pluginId });
    this.#parts.walk.soon();
  }

  // ---- inside ----

  /** What a claim becomes by an operation's success. */
  #reached(method: CsiClaimMethod, result: Readonly<Record<string, unknown>>) {
    const to = (state: ClaimState) => ({ state });
    switch (method) {
      case "csi.controller.publish": {
        const { publishContext } = result as CsiResultOf<typeof method>;
        const isEmpty = Object.keys(publishContext).length === 0;
        return { ...to("attached"), publishContext: isEmpty ? null : this.#parts.secrets.sealForClaim(publishContext) };
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

/** A controller was asked to detach its volume, and has not answered. */
const isBeingDetached = ({ state, operation }: CsiClaim): boolean => state === "node-detached" && operation !== null;

const pluginsOf = ({ CSINodePlugins, CSIControllerPlugins }: Node): string[] => [
  ...new Set([...Object.keys(CSINodePlugins ?? {}), ...Object.keys(CSIControllerPlugins ?? {})]),
];
