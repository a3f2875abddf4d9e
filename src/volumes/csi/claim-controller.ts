import type { CsiClaimMethod } from "@sallyport/agent-protocol";
import type { CsiClaim, CsiVolume, Name, Texts } from "../../contracts/csi-volumes.ts";
import type { EventPublisher } from "../../contracts/event-publisher.ts";
import type { MountOptions } from "../../contracts/volume-asks.ts";
import { backoff } from "../../lib/backoff.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { OperationWaiters } from "../../platform/durable/operation-waiters.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import type { ClaimContexts } from "./claim-context.ts";
import { claimParams, forClaim } from "./claim-params.ts";
import { nextStep, type Step } from "./claim-state-machine.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import { controllersFor } from "./controllers.ts";
import type { CsiDispatcher } from "./dispatcher.ts";
import { failedAt, NEEDS } from "./methods.ts";
import type { Orphans } from "./orphans.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiSecrets } from "./secrets.ts";
import { CLAIMED, CSI_VOLUME, type CsiVolumeStore, csiVolumeBackfill, csiVolumeEvent } from "./volume-store.ts";
import { remoteId } from "./volume-views.ts";

export interface ControllerDependencies {
  readonly publisher: EventPublisher<IndexBackfill>;
  readonly claims: CsiClaimStore;
  readonly contexts: ClaimContexts;
  readonly orphans: Orphans;
  readonly store: CsiVolumeStore;
  readonly plugins: CsiPlugins;
  readonly secrets: CsiSecrets;
  readonly dispatcher: CsiDispatcher;
}

/** Bounds of one transaction. */
const STEPS_AT_ONCE = 200;
const VOLUMES_AT_ONCE = 50;
const AFTER_DEFECT_MS = 60_000;

/**
 * Drives claims through their states according to `nextStep` (diagram in claim-state-machine.ts). Each transition is
 * stored before the next operation begins, so a claim resumes after a crash. The alarm reads due claims from the
 * table, so a lost wake-up delays a claim but never strands it.
 */
export class ClaimController implements Timed {
  readonly due = "SELECT min(due) FROM csi_claims WHERE due IS NOT NULL";
  readonly #dependencies: ControllerDependencies;
  readonly #waiters = new OperationWaiters();
  #isRunning = false;

  constructor(dependencies: ControllerDependencies) {
    this.#dependencies = dependencies;
  }

  /** Processes due claims after the current transaction. */
  soon(): void {
    queueMicrotask(() => void this.onAlarm());
  }

  async onAlarm(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const { claims, publisher } = this.#dependencies;
    try {
      for (;;) {
        const due = claims.dueVolumes(Date.now(), VOLUMES_AT_ONCE);
        for (const name of due) {
          this.#advanceSafely(name);
          this.#waiters.wake(keyOf(name));
        }
        await publisher.published();
        if (due.length === 0) return;
      }
    } finally {
      this.#isRunning = false;
    }
  }

  /** Resolves with the first non-null result of `look`, or null after `waitMs`. */
  async until<T>(name: Name, waitMs: number, last: boolean, look: () => T | null): Promise<T | null> {
    await this.#waiters.wait(keyOf(name), () => look() === null, waitMs, last);
    return look();
  }

  /** Emits an event for a volume whose claims have changed; inside a transaction. */
  emitChange(name: Name, backfills: readonly IndexBackfill[]): void {
    const { store, claims, publisher } = this.#dependencies;
    const known = store.find(name);
    if (!known) return;
    const owed = known.nodeExpansionOwed && claims.owing(name).length > 0;
    const volume: CsiVolume = { ...known, nodeExpansionOwed: owed, modifyTime: Date.now() };
    store.write(volume);
    publisher.emitLine([csiVolumeEvent(CLAIMED, store.shown(volume))], [csiVolumeBackfill(volume), ...backfills]);
  }

  /** Wakes blocking queries on volumes when a claim's error changes; emits no event. */
  refusalChanged(claim: CsiClaim, { message }: Refusal): void {
    if (claim.refusal?.message !== message) this.#dependencies.publisher.emitLine([], [{ table: CSI_VOLUME, row: [] }]);
  }

  /** Isolates a defect of one volume from the others. */
  #advanceSafely(name: Name): void {
    const { claims, publisher } = this.#dependencies;
    try {
      this.#advance(name);
    } catch (failure) {
      warn("csi-claims-failed", { ...name, because: textOf(failure) });
      publisher.commit(() => claims.postpone(name, Date.now() + AFTER_DEFECT_MS));
    }
  }

  /** Advances the due claims of a volume as far as possible, in one transaction and one event. */
  #advance(name: Name): void {
    const { claims, publisher } = this.#dependencies;
    publisher.commit(() => {
      let moved = false;
      for (let steps = 0; steps < STEPS_AT_ONCE; steps++) {
        const claim = claims.firstDue(name, Date.now());
        if (!claim) break;
        moved = this.#step(claim) || moved;
      }
      if (moved) this.emitChange(name, []);
    });
  }

  /** @returns whether the claim has moved */
  #step(claim: CsiClaim): boolean {
    const { claims, store, contexts } = this.#dependencies;
    const volume = store.find(nameOf(claim));
    if (!volume) return this.#withoutVolume(claim);
    const modes = modesOf(claim, volume);
    const step = nextStep(contexts.of({ ...claim, ...modes }, volume));
    switch (step.kind) {
      case "idle":
        claims.update(claim, { due: null, ...(claim.operation === null && { refusal: null }) });
        return false;
      case "wait":
        claims.update(claim, { pluginId: volume.pluginId, ...waiting(claim, step) });
        this.refusalChanged(claim, step.refusal);
        return false;
      case "leave-attached":
        claims.update(claim, { attachAsked: false });
        return false;
      case "leave-published":
        this.#dependencies.orphans.add(claim, remoteId(volume));
        claims.update(claim, { state: "node-detached", publishAsked: false, path: "", attempts: 0, refusal: null });
        return true;
      case "transition":
        if (step.state === "taken") this.#recordModes(claim, volume, modes);
        claims.update(claim, { state: step.state, attempts: 0, refusal: null });
        if (step.state === "attached") claims.update(claim, { path: "" });
        if (step.state === "unpublishing") claims.update(claim, { owesExpansion: false });
        return true;
      case "operate":
        this.#ask(step.method, claim, volume);
        return false;
      case "remove":
        return this.#removeClaim(claim);
    }
  }

  /** The access mode of the first claim stays the volume's mode until its last claim is released. */
  #recordModes(claim: CsiClaim, volume: CsiVolume, modes: Modes): void {
    const { claims, plugins } = this.#dependencies;
    const volumeMode = claims.modes(nameOf(claim))?.AccessMode ?? modes.accessMode;
    const externalNodeId = plugins.externalNodeId(volume.pluginId, claim.nodeId);
    claims.update(claim, { ...modes, volumeMode, pluginId: volume.pluginId, externalNodeId });
  }

  #ask(method: CsiClaimMethod, claim: CsiClaim, volume: CsiVolume): void {
    const { claims, orphans, contexts } = this.#dependencies;
    const begun = this.#begin(method, claim, volume);
    if (!begun.ok) {
      const refusal = failedAt(method, begun);
      claims.update(claim, failure(claim, refusal));
      this.refusalChanged(claim, refusal);
      return;
    }
    claims.update(claim, {
      ...{ operation: begun.value, due: null },
      ...(method === "csi.controller.publish" && { attachAsked: true }),
      ...(method === "csi.node.publish" && { publishAsked: true, boot: contexts.bootOf(claim) }),
    });
    if (method === "csi.node.publish") orphans.forget(claim);
  }

  #begin(method: CsiClaimMethod, given: CsiClaim, volume: CsiVolume): Result<string> {
    return refuseIfSealed((): Result<string> => {
      const { claims, plugins, secrets, dispatcher } = this.#dependencies;
      const externalNodeId = given.externalNodeId || plugins.externalNodeId(volume.pluginId, given.nodeId);
      if (given.externalNodeId === "") claims.update(given, { externalNodeId });
      const claim = { ...given, externalNodeId };
      const isController = method.startsWith("csi.controller.");
      // In a ControllerUnpublishVolume call, an empty node id means all nodes.
      if (isController && externalNodeId === "") return refuse("conflict", `missing external node ID: ${claim.nodeId}`);
      const able = isController ? controllersFor(plugins, volume.pluginId, NEEDS[method]) : ok([claim.nodeId]);
      if (!able.ok) return able;
      const params = claimParams(method, claim, secrets.opened(volume), {
        mount: claim.mount && (secrets.openOfClaim(claim.mount) as MountOptions),
        publishContext: claim.publishContext ? (secrets.openOfClaim(claim.publishContext) as Texts) : {},
      });
      const { namespace, id: volumeId, pluginId } = volume;
      return dispatcher.begin(
        {
          ...{ pluginId, namespace, volumeId, nodeId: able.value[0] ?? "", locks: false, method, params },
          ...{ request: `claim ${crypto.randomUUID()}`, change: forClaim(claim) },
        },
        secrets.of(volume),
      );
    });
  }

  /** Removes the claim, and records it again if its allocation is live again. */
  #removeClaim(claim: CsiClaim): boolean {
    const { claims } = this.#dependencies;
    claims.remove(claim);
    claims.touchPending(claim);
    if (this.#dependencies.contexts.isLive(claim)) claims.insert(claim, Date.now());
    return claim.state !== "pending";
  }

  /** Parks a live claim until its volume exists; removes the claim of a terminal allocation. */
  #withoutVolume(claim: CsiClaim): boolean {
    const { claims } = this.#dependencies;
    if (this.#dependencies.contexts.isLive(claim)) claims.update(claim, { due: null });
    else claims.remove(claim);
    return false;
  }
}

type Modes = Pick<CsiClaim, "accessMode" | "attachmentMode">;

export const nameOf = ({ namespace, volumeId }: CsiClaim): Name => ({ namespace, id: volumeId });
const keyOf = ({ namespace, id }: Name): string => JSON.stringify([namespace, id]);

/** The requested modes, by default those of the volume's first capability. */
const modesOf = ({ accessMode, attachmentMode }: CsiClaim, { capabilities: [first] }: CsiVolume): Modes => ({
  accessMode: accessMode || (first?.AccessMode ?? ""),
  attachmentMode: attachmentMode || (first?.AttachmentMode ?? ""),
});

/** The row changes after a failed step: next attempt with backoff. */
export const failure = ({ attempts }: CsiClaim, refusal: Refusal) => ({
  ...{ attempts: attempts + 1, refusal, due: Date.now() + backoff(attempts) },
});

const waiting = (claim: CsiClaim, { refusal, again }: Extract<Step, { kind: "wait" }>) =>
  again ? failure(claim, refusal) : { refusal, due: null };
