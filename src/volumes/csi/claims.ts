import type { CsiClaimMethod, CsiResultOf } from "@sallyport/agent-protocol";
import { type ChangeSet, NO_CHANGES, type NodeFollower } from "../../contracts/change-set.ts";
import type { ClaimState, CsiClaim, CsiOperation, Name } from "../../contracts/csi-volumes.ts";
import type { Node } from "../../contracts/node.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { BOOT } from "./claim-context.ts";
import { type ClaimController, type ControllerDependencies, failure, nameOf } from "./claim-controller.ts";
import type { ForClaim } from "./claim-params.ts";
import { holder, inUse } from "./claim-views.ts";
import { CSI_OPERATION } from "./csi-operations.ts";
import type { Effects } from "./dispatcher.ts";

interface Dependencies extends ControllerDependencies {
  readonly controller: ClaimController;
}

/**
 * Claims on CSI volumes: the triggers that make claims due, the queries of users, and the effects of completed
 * operations. `claim-controller.ts` moves claims between their states.
 */
export class CsiClaims implements Effects, NodeFollower {
  readonly #dependencies: Dependencies;

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** Makes claims of a new or changed volume due; inside a transaction. */
  volumeCreated(name: Name): void {
    if (this.#dependencies.claims.touchVolume(name)) this.#dependencies.controller.soon();
  }

  /** Makes claims due when a node's status, boot id or plugins change. */
  nodeChanged(before: Node | null, after: Node | null): ChangeSet {
    const { claims } = this.#dependencies;
    const claimedState = (node: Node | null) =>
      node && JSON.stringify([node.Status, node.Attributes[BOOT], node.CSINodePlugins, node.CSIControllerPlugins]);
    if (claimedState(before) === claimedState(after)) return NO_CHANGES;
    const touched = [
      claims.touchNode(after?.ID ?? before?.ID ?? ""),
      ...(after?.Status === "ready" ? pluginsOf(after).map((id) => claims.touchRefused(id)) : []),
    ];
    if (touched.includes(true)) this.#dependencies.controller.soon();
    return NO_CHANGES;
  }

  /** Why a volume is not removed; null when it is free. */
  heldBy(name: Name): Refusal | null {
    return inUse(name.id, this.#dependencies.claims.of(name));
  }

  /** As `heldBy`, restricted to claims of live allocations. */
  heldByLive(name: Name): Refusal | null {
    return inUse(name.id, this.#dependencies.claims.live(name));
  }

  /**
   * Removes the claims of terminal allocations of a forgotten volume without undoing them. Live claims wait for a
   * volume of that name; inside a transaction.
   */
  volumeRemoved(name: Name): void {
    this.#dependencies.claims.removeEnded(name);
  }

  /** Starts the release of a node's claims of terminal allocations; `detached` waits for it. */
  detach(name: Name, nodeId: string): Result<null> {
    const { claims, store, publisher } = this.#dependencies;
    if (!store.find(name)) return refuse("missing", "no such volume");
    const here = claims.on(name, nodeId);
    // A removed node may still hold claims; an unknown node without claims is an error.
    if (here.length === 0 && !this.#dependencies.contexts.knowsNode(nodeId)) {
      return refuse("missing", `no such node ${JSON.stringify(nodeId)}`);
    }
    const used = inUse(
      name.id,
      here.filter((claim) => this.#dependencies.contexts.isLive(claim)),
    );
    if (used) return used;
    // Refusals from earlier attempts are cleared: later ones belong to this attempt.
    const now = Date.now();
    publisher.commit(() => {
      for (const claim of here) claims.update(claim, { refusal: null, ...(claim.operation === null && { due: now }) });
    });
    this.#dependencies.controller.soon();
    return ok(null);
  }

  /** The outcome of `detach`: released, or the refusal; null when neither is known after `waitMs`. */
  detached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#dependencies.controller.until(name, waitMs, last, () => {
      const here = this.#dependencies.claims
        .on(name, nodeId)
        .filter((claim) => !this.#dependencies.contexts.isLive(claim));
      const stuck = here.find(({ refusal }) => refusal);
      return stuck?.refusal ?? (here.length === 0 ? ok(null) : null);
    });
  }

  /** Whether an expanded volume is expanded on all of its nodes, or the refusal; null as in `detached`. */
  expanded(name: Name, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#dependencies.controller.until(name, waitMs, last, () => {
      const owing = this.#dependencies.claims.owing(name);
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
    const isOwed = this.#dependencies.claims.oweExpansion(name);
    if (isOwed) this.#dependencies.controller.soon();
    return isOwed;
  }

  mayStart({ id }: CsiOperation): Refusal | null {
    const { claims, orphans } = this.#dependencies;
    const isWanted = claims.waitingFor(id) !== null || orphans.isWaitingFor(id);
    return isWanted ? null : refuse("conflict", "nobody waits for it any more");
  }

  succeeded(operation: CsiOperation, result: Readonly<Record<string, unknown>>): null {
    const { claims, orphans } = this.#dependencies;
    orphans.ended(operation.id, true);
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
    this.#dependencies.controller.emitChange(nameOf(claim), [{ table: CSI_OPERATION, row: [operation.id] }]);
    this.#dependencies.controller.soon();
    return null;
  }

  failed({ id }: CsiOperation, refusal: Refusal): void {
    const { claims, orphans } = this.#dependencies;
    orphans.ended(id, false);
    const claim = claims.waitingFor(id);
    if (!claim) return;
    claims.update(claim, { operation: null, ...failure(claim, refusal) });
    claims.touchResting(nameOf(claim), claim.nodeId);
    this.#dependencies.controller.refusalChanged(claim, refusal);
    this.#dependencies.controller.soon();
  }

  /** A late result counts only for a controller publish: the attachment has to be undone. */
  countsLate({ state, method, namespace, volumeId, change, nodeId: counted }: CsiOperation, teller: string): boolean {
    const { claims, store } = this.#dependencies;
    if (method !== "csi.controller.publish" || (state === "done" && teller === counted)) return false;
    const name = { namespace, id: volumeId };
    const here = claims.on(name, (change as ForClaim).nodeId);
    return store.find(name) !== null && here.every((claim) => !claim.attachAsked || isBeingDetached(claim));
  }

  /** Schedules the detach of an attachment whose claim no longer exists. */
  #owe({ method, namespace, volumeId, pluginId, change, params }: CsiOperation): void {
    if (method !== "csi.controller.publish") return;
    const { claims } = this.#dependencies;
    const { allocId, nodeId } = change as ForClaim;
    const name = { namespace, id: volumeId };
    const detaching = claims.on(name, nodeId).filter(isBeingDetached);
    if (detaching.length > 0) {
      // The order of attach and detach is unknown, so the volume is detached again.
      for (const claim of detaching) claims.update(claim, { operation: null, due: Date.now() });
      this.#dependencies.controller.soon();
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
    this.#dependencies.controller.soon();
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
          publishContext: isEmpty ? null : this.#dependencies.secrets.sealForClaim(publishContext),
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

const pluginsOf = ({ CSINodePlugins, CSIControllerPlugins }: Node): string[] => [
  ...new Set([...Object.keys(CSINodePlugins ?? {}), ...Object.keys(CSIControllerPlugins ?? {})]),
];
