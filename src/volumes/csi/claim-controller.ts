import type { CsiClaimMethod } from "@sallyport/agent-protocol";
import type { CsiClaim, CsiVolume, Name } from "../../contracts/csi-volumes.ts";
import { backoff } from "../../lib/backoff.ts";
import type { Refusal } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { OperationWaiters } from "../../platform/durable/operation-waiters.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import type { ClaimCalls } from "./claim-calls.ts";
import type { ClaimContexts } from "./claim-context.ts";
import { nextStep, type Step } from "./claim-state-machine.ts";
import type { CsiClaimStore } from "./claim-store.ts";
import { failedAt } from "./methods.ts";
import { CLAIMED, CSI_VOLUME, type CsiVolumeStore, csiVolumeBackfill, csiVolumeEvent } from "./volume-store.ts";

/** Bounds of one transaction. */
const MAX_STEPS = 200;
const MAX_VOLUMES = 50;
const AFTER_DEFECT_MS = 60_000;

/**
 * Drives claims through their states according to `nextStep` (diagram in claim-state-machine.ts). Each transition is
 * stored before the next operation begins, so a claim resumes after a crash. The alarm reads due claims from the
 * table, so a lost wake-up delays a claim but never strands it.
 */
export class ClaimController implements Timed {
  readonly due = "SELECT min(due) FROM csi_claims WHERE due IS NOT NULL";
  readonly #waiters = new OperationWaiters();
  #isRunning = false;

  constructor(
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly claims: CsiClaimStore,
    private readonly contexts: ClaimContexts,
    private readonly store: CsiVolumeStore,
    private readonly calls: ClaimCalls,
  ) {}

  /** Processes due claims after the current transaction. */
  soon(): void {
    queueMicrotask(() => void this.onAlarm());
  }

  async onAlarm(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      for (;;) {
        const due = this.claims.dueVolumes(Date.now(), MAX_VOLUMES);
        for (const name of due) {
          this.#advanceSafely(name);
          this.#waiters.wake(keyOf(name));
        }
        await this.publisher.published();
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
    const known = this.store.find(name);
    if (!known) return;
    const owed = known.nodeExpansionOwed && this.claims.owing(name).length > 0;
    const volume: CsiVolume = { ...known, nodeExpansionOwed: owed, modifyTime: Date.now() };
    this.store.write(volume);
    this.publisher.emitLine(
      [csiVolumeEvent(CLAIMED, this.store.shown(volume))],
      [csiVolumeBackfill(volume), ...backfills],
    );
  }

  /** Wakes blocking queries on volumes when a claim's error changes; emits no event. */
  refusalChanged(claim: CsiClaim, { message }: Refusal): void {
    if (claim.refusal?.message !== message) this.publisher.emitLine([], [{ table: CSI_VOLUME, row: [] }]);
  }

  /** Isolates a defect of one volume from the others. */
  #advanceSafely(name: Name): void {
    try {
      this.#advance(name);
    } catch (failure) {
      warn("csi-claims-failed", { ...name, because: textOf(failure) });
      this.publisher.commit(() => this.claims.postpone(name, Date.now() + AFTER_DEFECT_MS));
    }
  }

  /** Advances the due claims of a volume as far as possible, in one transaction and one event. */
  #advance(name: Name): void {
    this.publisher.commit(() => {
      let moved = false;
      for (let steps = 0; steps < MAX_STEPS; steps++) {
        const claim = this.claims.firstDue(name, Date.now());
        if (!claim) break;
        moved = this.#step(claim) || moved;
      }
      if (moved) this.emitChange(name, []);
    });
  }

  /** @returns whether the claim has moved */
  #step(claim: CsiClaim): boolean {
    const volume = this.store.find(nameOf(claim));
    if (!volume) return this.#withoutVolume(claim);
    const modes = modesOf(claim, volume);
    const step = nextStep(this.contexts.of({ ...claim, ...modes }, volume));
    switch (step.kind) {
      case "idle":
        this.claims.update(claim, { due: null, ...(claim.operation === null && { refusal: null }) });
        return false;
      case "wait":
        this.claims.update(claim, { pluginId: volume.pluginId, ...waiting(claim, step) });
        this.refusalChanged(claim, step.refusal);
        return false;
      case "leave-attached":
        this.claims.update(claim, { attachAsked: false });
        return false;
      case "leave-published":
        this.calls.leavePublished(claim, volume);
        this.claims.update(claim, {
          state: "node-detached",
          publishAsked: false,
          path: "",
          attempts: 0,
          refusal: null,
        });
        return true;
      case "transition":
        if (step.state === "taken") this.#recordModes(claim, volume, modes);
        this.claims.update(claim, { state: step.state, attempts: 0, refusal: null });
        if (step.state === "attached") this.claims.update(claim, { path: "" });
        if (step.state === "unpublishing") this.claims.update(claim, { owesExpansion: false });
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
    const volumeMode = this.claims.modes(nameOf(claim))?.AccessMode ?? modes.accessMode;
    const externalNodeId = this.calls.externalNodeId(claim, volume);
    this.claims.update(claim, { ...modes, volumeMode, pluginId: volume.pluginId, externalNodeId });
  }

  #ask(method: CsiClaimMethod, claim: CsiClaim, volume: CsiVolume): void {
    const begun = this.calls.begin(method, claim, volume);
    if (!begun.ok) {
      const refusal = failedAt(method, begun);
      this.claims.update(claim, failure(claim, refusal));
      this.refusalChanged(claim, refusal);
      return;
    }
    this.claims.update(claim, {
      operation: begun.value,
      due: null,
      ...(method === "csi.controller.publish" && { attachAsked: true }),
      ...(method === "csi.node.publish" && { publishAsked: true, boot: this.contexts.bootOf(claim) }),
    });
  }

  /** Removes the claim, and records it again if its allocation is live again. */
  #removeClaim(claim: CsiClaim): boolean {
    this.claims.remove(claim);
    this.claims.touchPending(claim);
    if (this.contexts.isLive(claim)) this.claims.insert(claim, Date.now());
    return claim.state !== "pending";
  }

  /** Parks a live claim until its volume exists; removes the claim of a terminal allocation. */
  #withoutVolume(claim: CsiClaim): boolean {
    if (this.contexts.isLive(claim)) this.claims.update(claim, { due: null });
    else this.claims.remove(claim);
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
  attempts: attempts + 1,
  refusal,
  due: Date.now() + backoff(attempts),
});

const waiting = (claim: CsiClaim, { refusal, again }: Extract<Step, { kind: "wait" }>) =>
  again ? failure(claim, refusal) : { refusal, due: null };
