import type { CsiClaimMethod, CsiResultOf } from "@sallyport/agent-protocol";
import type { Node } from "../../cluster/node/record.ts";
import { NOTHING, type NodeFollower, type Told } from "../../cluster/node/told.ts";
import type { Stamp } from "../../cluster/stamp.ts";
import type { Timed } from "../../cluster/timed.ts";
import type { Journal } from "../../events/journal.ts";
import { textOf, warn } from "../../log.ts";
import { ok, type Refusal, type Result, refuse } from "../../result.ts";
import { guarded } from "../../sealing/guarded.ts";
import { backoff } from "../../work/backoff.ts";
import { Attendance } from "../attendance.ts";
import { refusedClaim } from "./admission.ts";
import { holder, inUse } from "./claim.ts";
import { claimParams, type ForClaim, forClaim } from "./claim-params.ts";
import { type ClaimState, nextStep, type Situation, type Step } from "./claim-step.ts";
import type { CsiClaim, CsiClaimStore } from "./claim-store.ts";
import { controllersFor } from "./controllers.ts";
import { CSI_OPERATION, type CsiOperation, type CsiOperations } from "./operations.ts";
import type { CsiPlugin } from "./plugin.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiSecrets } from "./secrets.ts";
import { type CsiVolume, isSchedulable, type MountOptions, type Name, type Texts } from "./volume.ts";
import { CLAIMED, CSI_VOLUME, type CsiVolumeStore, csiVolumeEvent, csiVolumeStamp } from "./volume-store.ts";
import { type CsiWork, type Effects, NEEDS } from "./work.ts";

interface Parts {
  readonly sql: SqlStorage;
  readonly journal: Journal<Stamp>;
  readonly claims: CsiClaimStore;
  readonly store: CsiVolumeStore;
  readonly plugins: CsiPlugins;
  readonly operations: CsiOperations;
  readonly secrets: CsiSecrets;
  readonly work: CsiWork;
}

/** One transaction does no more than this. */
const STEPS_AT_ONCE = 200;
const VOLUMES_AT_ONCE = 50;
const AFTER_DEFECT_MS = 60_000;

/**
 * Takes and releases claims on CSI volumes (contract: events-and-volumes 4.9). A claim walks from state to state, each change
 * written down before the next thing is asked for, so that it goes on after a crash from where it was. What `nextStep` says is
 * done here.
 */
export class CsiClaims implements Effects, Timed, NodeFollower {
  readonly #parts: Parts;
  readonly #attendance = new Attendance();
  #walking = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  // ---- what sets claims going ----

  /** Looks at what is due, once the transaction that runs is over. */
  walk(): void {
    queueMicrotask(() => void this.#walk());
  }

  /** A volume is there that claims may have waited for; inside a transaction. */
  volumeMade(name: Name): void {
    if (this.#parts.claims.touchVolume(name)) this.walk();
  }

  /** A node is ready, down, gone, or its plugins are not what they were. */
  nodeChanged(before: Node | null, after: Node | null): Told {
    const { claims } = this.#parts;
    const facts = (node: Node | null) =>
      node && JSON.stringify([node.Status, node.CSINodePlugins, node.CSIControllerPlugins]);
    if (facts(before) === facts(after)) return NOTHING;
    const touched = [
      claims.touchNode(after?.ID ?? before?.ID ?? ""),
      ...(after?.Status === "ready" ? pluginsOf(after).map((id) => claims.touchRefused(id)) : []),
    ];
    if (touched.includes(true)) this.walk();
    return NOTHING;
  }

  nextDue(): number | null {
    return this.#parts.claims.nextDue();
  }

  async onAlarm(): Promise<void> {
    await this.#walk();
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
    const used = inUse(
      name.id,
      here.filter((claim) => this.#isLive(claim)),
    );
    if (used) return used;
    // What fails from here on is this try's failure.
    const now = Date.now();
    journal.commit(() => {
      for (const claim of here) claims.update(claim, { refusal: null, ...(claim.operation === null && { due: now }) });
    });
    this.walk();
    return ok(null);
  }

  /** How that has ended: freed, or why not yet; null when neither is known after `waitMs`. */
  detached(name: Name, nodeId: string, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#until(name, waitMs, last, () => {
      const here = this.#parts.claims.on(name, nodeId).filter((claim) => !this.#isLive(claim));
      const stuck = here.find(({ refusal }) => refusal);
      return stuck?.refusal ?? (here.length === 0 ? ok(null) : null);
    });
  }

  /** Whether a volume that has grown has done so wherever it is used, or why not yet; null as `detached`. */
  expanded(name: Name, waitMs: number, last: boolean): Promise<Result<null> | null> {
    return this.#until(name, waitMs, last, () => {
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
    if (isOwed) this.walk();
    return isOwed;
  }

  // ---- what comes of operations ----

  mayStart({ id }: CsiOperation): Refusal | null {
    return this.#parts.claims.waitingFor(id) ? null : refuse("conflict", "nobody waits for it any more");
  }

  succeeded(operation: CsiOperation, result: Readonly<Record<string, unknown>>): void {
    const { claims } = this.#parts;
    const claim = claims.waitingFor(operation.id);
    if (!claim) {
      this.#owe(operation);
      return;
    }
    const method = operation.method as CsiClaimMethod;
    claims.update(claim, {
      ...this.#reached(method, result),
      ...{ operation: null, attempts: 0, refusal: null, due: Date.now() },
    });
    claims.touchResting(nameOf(claim), claim.nodeId);
    this.#tell(nameOf(claim), [{ table: CSI_OPERATION, row: [operation.id] }]);
    this.walk();
  }

  failed({ id }: CsiOperation, refusal: Refusal): void {
    const { claims } = this.#parts;
    const claim = claims.waitingFor(id);
    if (!claim) return;
    claims.update(claim, { operation: null, ...failure(claim, refusal) });
    claims.touchResting(nameOf(claim), claim.nodeId);
    this.#see(claim, refusal);
    this.walk();
  }

  /** It has ended before: only what a controller attached after all counts, as somebody has to detach it. */
  countsLate({ state, method, namespace, volumeId, change, nodeId: counted }: CsiOperation, teller: string): boolean {
    const { claims, store } = this.#parts;
    if (method !== "csi.controller.publish" || (state === "done" && teller === counted)) return false;
    const name = { namespace, id: volumeId };
    const here = claims.on(name, (change as ForClaim).nodeId);
    return store.find(name) !== null && !here.some(({ attachAsked }) => attachAsked);
  }

  /** What a controller attached for a claim that nobody waits with any more is detached again. */
  #owe({ method, namespace, volumeId, pluginId, change, params }: CsiOperation): void {
    if (method !== "csi.controller.publish") return;
    const { claims } = this.#parts;
    const { allocId, nodeId } = change as ForClaim;
    const name = { namespace, id: volumeId };
    const modes = { accessMode: "", attachmentMode: "" };
    const isNew = claims.insert(
      { namespace, volumeId, allocId, nodeId, mode: "read", ...modes, mount: null },
      Date.now(),
    );
    const claim = claims.find(name, allocId);
    if (!claim) return;
    claims.update(claim, { attachAsked: true, externalNodeId: params["externalNodeId"] as string });
    if (isNew) claims.update(claim, { state: "node-detached", pluginId });
    this.walk();
  }

  // ---- the walk ----

  async #walk(): Promise<void> {
    if (this.#walking) return;
    this.#walking = true;
    const { claims, journal } = this.#parts;
    try {
      for (;;) {
        const due = claims.dueVolumes(Date.now(), VOLUMES_AT_ONCE);
        for (const name of due) {
          this.#tryToSettle(name);
          this.#attendance.wake(keyOf(name));
        }
        await journal.published();
        if (due.length === 0) return;
      }
    } finally {
      this.#walking = false;
    }
  }

  /** A defect about one volume is not to hold up the others. */
  #tryToSettle(name: Name): void {
    const { claims, journal } = this.#parts;
    try {
      this.#settle(name);
    } catch (failure) {
      warn("csi-claims-failed", { ...name, because: textOf(failure) });
      journal.commit(() => claims.postpone(name, Date.now() + AFTER_DEFECT_MS));
    }
  }

  /** Moves the claims of a volume that are due as far as they get, as one transaction and one event. */
  #settle(name: Name): void {
    const { claims, journal } = this.#parts;
    journal.commit(() => {
      let moved = false;
      for (let steps = 0; steps < STEPS_AT_ONCE; steps++) {
        const claim = claims.firstDue(name, Date.now());
        if (!claim) break;
        moved = this.#step(claim) || moved;
      }
      if (moved) this.#tell(name, []);
    });
  }

  /** @returns whether the claim has moved */
  #step(claim: CsiClaim): boolean {
    const { claims, store, plugins } = this.#parts;
    const volume = store.find(nameOf(claim));
    if (!volume) return this.#withoutVolume(claim);
    const plugin = plugins.find(volume.pluginId);
    const modes = modesOf(claim, volume);
    const step = nextStep(this.#situation({ ...claim, ...modes }, volume, plugin));
    switch (step.kind) {
      case "rest":
        claims.update(claim, { due: null, ...(claim.operation === null && { refusal: null }) });
        return false;
      case "wait":
        claims.update(claim, { pluginId: volume.pluginId, ...waiting(claim, step) });
        this.#see(claim, step.refusal);
        return false;
      case "leave-attached":
        claims.update(claim, { attachAsked: false });
        return false;
      case "become":
        claims.update(claim, { state: step.state, attempts: 0, refusal: null });
        if (step.state === "taken") this.#noteTaken(claim, volume, modes);
        if (step.state === "unpublishing") claims.update(claim, { owesExpansion: false });
        return true;
      case "ask":
        this.#ask(step.method, claim, volume);
        return false;
      case "free":
        return this.#free(claim);
    }
  }

  #situation(claim: CsiClaim, volume: CsiVolume, plugin: CsiPlugin | null): Situation {
    const { claims, plugins } = this.#parts;
    const name = nameOf(claim);
    const others = claims.on(name, claim.nodeId).filter(({ row }) => row !== claim.row);
    return {
      ...{ state: claim.state, attachAsked: claim.attachAsked, publishAsked: claim.publishAsked, nodeId: claim.nodeId },
      ...{ owesExpansion: claim.owesExpansion, isAsking: claim.operation !== null, live: this.#isLive(claim) },
      refused: claim.state === "pending" ? this.#refused(claim, volume, plugin) : null,
      node: this.#node(claim, volume),
      attaches: (plugin?.controllerRequired ?? false) && plugins.mayAttach(volume.pluginId),
      others: {
        attached: others.some(({ attachAsked }) => attachAsked),
        busy: others.some(
          ({ operation, state }) => operation !== null && (state === "taken" || state === "node-detached"),
        ),
      },
    };
  }

  #refused(claim: CsiClaim, volume: CsiVolume, plugin: CsiPlugin | null): Refusal | null {
    const { claims, plugins, operations } = this.#parts;
    const name = nameOf(claim);
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

  /** Modes are the volume's first unless the job asked for others. */
  #noteTaken(claim: CsiClaim, volume: CsiVolume, modes: Modes): void {
    const { claims, plugins } = this.#parts;
    const externalNodeId = plugins.externalNodeId(volume.pluginId, claim.nodeId);
    claims.update(claim, { ...modes, pluginId: volume.pluginId, externalNodeId });
  }

  #ask(method: CsiClaimMethod, claim: CsiClaim, volume: CsiVolume): void {
    const { claims } = this.#parts;
    const begun = this.#begin(method, claim, volume);
    if (!begun.ok) {
      claims.update(claim, failure(claim, begun));
      this.#see(claim, begun);
      return;
    }
    claims.update(claim, {
      ...{ operation: begun.value, due: null },
      ...(method === "csi.controller.publish" && { attachAsked: true }),
      ...(method === "csi.node.publish" && { publishAsked: true }),
    });
  }

  #begin(method: CsiClaimMethod, given: CsiClaim, volume: CsiVolume): Result<string> {
    return guarded((): Result<string> => {
      const { claims, plugins, secrets, work } = this.#parts;
      const externalNodeId = given.externalNodeId || plugins.externalNodeId(volume.pluginId, given.nodeId);
      if (given.externalNodeId === "") claims.update(given, { externalNodeId });
      const claim = { ...given, externalNodeId };
      const isController = method.startsWith("csi.controller.");
      // An empty one would mean every node.
      if (isController && externalNodeId === "") return refuse("conflict", `missing external node ID: ${claim.nodeId}`);
      const able = isController ? controllersFor(plugins, volume.pluginId, NEEDS[method]) : ok([claim.nodeId]);
      if (!able.ok) return able;
      const params = claimParams(method, claim, secrets.opened(volume), {
        mount: claim.mount && (secrets.openOfClaim(claim.mount) as MountOptions),
        publishContext: claim.publishContext ? (secrets.openOfClaim(claim.publishContext) as Texts) : {},
      });
      const { namespace, id: volumeId, pluginId } = volume;
      return work.begin(
        {
          ...{ pluginId, namespace, volumeId, nodeId: able.value[0] ?? "", locks: false, method, params },
          ...{ request: `claim ${crypto.randomUUID()}`, change: forClaim(claim) },
        },
        secrets.of(volume),
      );
    });
  }

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

  /** The claim is gone, unless its allocation was reported anew meanwhile. */
  #free(claim: CsiClaim): boolean {
    const { claims } = this.#parts;
    claims.remove(claim);
    claims.touchPending(claim);
    if (this.#isLive(claim)) claims.insert(claim, Date.now());
    return claim.state !== "pending";
  }

  /** Its volume may yet come. */
  #withoutVolume(claim: CsiClaim): boolean {
    const { claims } = this.#parts;
    if (this.#isLive(claim)) claims.update(claim, { due: null });
    else claims.remove(claim);
    return false;
  }

  #isLive({ namespace, allocId }: CsiClaim): boolean {
    return (
      this.#parts.sql
        .exec(
          "SELECT 1 FROM reported WHERE topic = 'Allocation' AND namespace = ? AND id = ? AND terminal = 0",
          namespace,
          allocId,
        )
        .toArray().length > 0
    );
  }

  // ---- telling ----

  #tell(name: Name, stamps: readonly Stamp[]): void {
    const { store, claims, journal } = this.#parts;
    const known = store.find(name);
    if (!known) return;
    const owed = known.nodeExpansionOwed && claims.owing(name).length > 0;
    const volume: CsiVolume = { ...known, nodeExpansionOwed: owed, modifyTime: Date.now() };
    store.write(volume);
    journal.emitLine([csiVolumeEvent(CLAIMED, store.shown(volume))], [csiVolumeStamp(volume), ...stamps]);
  }

  /** What keeps a claim is news to who waits for the volume to change, though no event tells of it. */
  #see(claim: CsiClaim, { message }: Refusal): void {
    if (claim.refusal?.message !== message) this.#parts.journal.emitLine([], [{ table: CSI_VOLUME, row: [] }]);
  }

  async #until<T>(name: Name, waitMs: number, last: boolean, look: () => T | null): Promise<T | null> {
    await this.#attendance.wait(keyOf(name), () => look() === null, waitMs, last);
    return look();
  }
}

type Modes = Pick<CsiClaim, "accessMode" | "attachmentMode">;

const nameOf = ({ namespace, volumeId }: CsiClaim): Name => ({ namespace, id: volumeId });
const keyOf = ({ namespace, id }: Name): string => JSON.stringify([namespace, id]);

const pluginsOf = ({ CSINodePlugins, CSIControllerPlugins }: Node): string[] => [
  ...new Set([...Object.keys(CSINodePlugins ?? {}), ...Object.keys(CSIControllerPlugins ?? {})]),
];

const modesOf = ({ accessMode, attachmentMode }: CsiClaim, { capabilities: [first] }: CsiVolume): Modes => ({
  accessMode: accessMode || (first?.AccessMode ?? ""),
  attachmentMode: attachmentMode || (first?.AttachmentMode ?? ""),
});

const failure = ({ attempts }: CsiClaim, refusal: Refusal) => ({
  ...{ attempts: attempts + 1, refusal, due: Date.now() + backoff(attempts) },
});

const waiting = (claim: CsiClaim, { refusal, again }: Extract<Step, { kind: "wait" }>) =>
  again ? failure(claim, refusal) : { refusal, due: null };
