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
 * Claims on CSI volumes: the triggers that make claims due, the queries of users, and the effects of completed
 * operations. `claim-controller.ts` moves claims between their states.
 */
export class CsiClaims implements Effects, NodeFollower {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Makes claims of a new or changed volume due; inside a transaction. */
  volumeMade(name: Name): void {
    if (this.#parts.claims.touchVolume(name)) this.#parts.walk.soon();
  }

  /** Makes claims due when a node's status, boot id or plugins change. */
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

  /** Why a volume is not removed; null when it is free. */
  heldBy(name: Name): Refusal | null {
    return inUse(name.id, this.#parts.claims.of(name));
  }

  /** As `heldBy`, restricted to claims of live allocations. */
  heldByLive(name: Name): Refusal | null {
    return inUse(name.id, this.#parts.claims.live(name));
  }

  /**
   * Removes the claims of terminal allocations of a forgotten volume without undoing them. Live claims wait for a
   * volume of that name; inside a transaction.
   */
  volumeGone(name: Name): void {
    this.#parts.claims.removeEnded(name);
  }

  /** Starts the release of a node's claims of terminal allocations; `detached` waits for it. */
  detach(name: Name, nodeId: string): Result<null> {
    const { claims, store, journal } = this.#parts;
    if (!store.find(name)) return refuse("missing", "no such volume");
    const here = claims.on(name, nodeId);
    // A removed node may still hold claims; an unknown node without claims is an error.
    if (here.length === 0 && !this.#parts.situations.knowsNode(nodeId)) {
      return refuse("missing", `no such node ${JSON.stringify(nodeId)}`);
    }
    const used = inUse(
      name.id,
      here.filter((claim) => this.#parts.situations.isLive(claim)),
    );
    if (used) return used;
    // Refusals from earlier attempts are cleared: later ones belong to this attempt.
    const now = Date.now();
    journal.commit(() => {
      for (const claim of here) claims.update(claim, { refusal: null, ...(claim.operation === null && { due: now }) });
    });
    this.#parts.walk.soon();
    return ok(null);
  }

  /** The outcome of `detach`: released, or the refusal; null when neither is known after `waitMs`. */
  detached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#parts.walk.until(name, waitMs, last, () => {
      const here = this.#parts.claims.on(name, nodeId).filter((claim) => !this.#parts.situations.isLive(claim));
      const stuck = here.find(({ refusal }) => refusal);
      return stuck?.refusal ?? (here.length === 0 ? ok(null) : null);
    });
  }

  /** Whether an expanded volume is expanded on all of its nodes, or the refusal; null as in `detached`. */
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

  /** Marks published claims for expansion; inside a transaction. @returns whether there are any */
  oweExpansion(name: Name): boolean {
    const isOwed = this.#parts.claims.oweExpansion(name);
    if (isOwed) this.#parts.walk.soon();
    return isOwed;
  }

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

  /** A late result counts only for a controller publish: the attachment has to be undone. */
  countsLate({ state, method, namespace, volumeId, change, nodeId: counted }: CsiOperation, teller: string): boolean {
    const { claims, store } = this.#parts;
    if (method !== "csi.controller.publish" || (state === "done" && teller === counted)) return false;
    const name = { namespace, id: volumeId };
    const here = claims.on(name, (change as ForClaim).nodeId);
    return store.find(name) !== null && here.every((claim) => !claim.attachAsked || isBeingDetached(claim));
  }

  /** Schedules the detach of an attachment whose claim no longer exists. */
  #owe({ method, namespace, volumeId, pluginId, change, params }: CsiOperation): void {
    if (method !== "csi.controller.publish") return;
    const { claims } = this.#parts;
    const { allocId, nodeId } = change as ForClaim;
    const name = { namespace, id: volumeId };
    const detaching = claims.on(name, nodeId).filter(isBeingDetached);
    if (detaching.length > 0) {
      // The order of attach and detach is unknown, so the volume is detached again.
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

  /** The claim's row changes after a successful operation. */
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

/** A detach was sent to the controller and is not completed. */
const isBeingDetached = ({ state, operation }: CsiClaim): boolean => state === "node-detached" && operation !== null;

const pluginsOf = ({ CSINodePlugins, CSIControllerPlugins }: Node): string[] => [
  ...new Set([...Object.keys(CSINodePlugins ?? {}), ...Object.keys(CSIControllerPlugins ?? {})]),
];
