import { CSI_METHODS, type CsiMethod, type CsiResultOf } from "@sallyport/agent-protocol";
import type {
  CsiOperation,
  CsiPlugin,
  CsiRequest,
  CsiStep,
  CsiVolume,
  Name,
  Texts,
  Topology,
} from "../../contracts/csi-volumes.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import type { CsiClaims } from "./claims.ts";
import { controllersFor } from "./controllers.ts";
import { CSI_OPERATION, type CsiOperations } from "./csi-operations.ts";
import type { CsiDispatcher, Effects } from "./dispatcher.ts";
import { type Merged, merged, sizeFault } from "./merge.ts";
import { NEEDS } from "./methods.ts";
import { providerOf, taken, volumeFrom } from "./new-volume.ts";
import { createParams, expandParams, validateParams } from "./params.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiSecrets } from "./secrets.ts";
import { type CsiVolumeStore, csiVolumeBackfill, csiVolumeEvent, DEREGISTERED, REGISTERED } from "./volume-store.ts";
import { remoteId, withoutFlags } from "./volume-views.ts";

/** Table name for blocking queries on snapshots, which have no rows: each wake-up lists them from the plugin again. */
export const CSI_SNAPSHOT = "CSISnapshot";
const SNAPSHOT_CHANGES: ReadonlySet<CsiMethod> = new Set([
  "csi.controller.snapshotCreate",
  "csi.controller.snapshotDelete",
]);

const READY: CsiStep = { kind: "ready" };
/** Upper bound of a volume's operations that are searched for its deletion. */
const LATER_OPERATIONS = 100;

interface CsiVolumesDependencies {
  readonly publisher: EventPublisher<IndexBackfill>;
  readonly store: CsiVolumeStore;
  readonly plugins: CsiPlugins;
  readonly claims: CsiClaims;
  readonly operations: CsiOperations;
  readonly secrets: CsiSecrets;
  readonly dispatcher: CsiDispatcher;
}

/** The definition of a created volume, stored with its create operation. */
type Created = Omit<CsiRequest, "secrets">;
/** Fields of a volume that an expansion or modification changes. */
type Changed = Partial<CsiVolume>;

const isDeletion = ({ method, state }: CsiOperation): boolean =>
  method === "csi.controller.delete" && state !== "failed";

/**
 * Creates, updates, expands and deletes CSI volumes. Every change is decided here and stored before its plugin is
 * called. Read by the volume routes through the registry object.
 */
export class CsiVolumes implements Effects {
  constructor(private readonly dependencies: CsiVolumesDependencies) {}

  /**
   * Validates a volume with its plugin before registration.
   * @param nodeId the node of the validating controller; null = any
   */
  validate(request: CsiRequest, nodeId: string | null, digest: string): Result<CsiStep> {
    return refuseIfSealed((): Result<CsiStep> => {
      const { store, dispatcher, secrets, plugins } = this.dependencies;
      const checked = this.#checked(request);
      if (!checked.ok) return checked;
      const { plugin, known } = checked.value;
      if (!plugin.controllerRequired) return ok(READY);
      const able = controllersFor(plugins, plugin.id, NEEDS["csi.controller.validate"]);
      if (!able.ok) return able;
      const chosen = nodeId === null ? able.value[0] : able.value.find((each) => each === nodeId);
      if (chosen === undefined)
        return refuse("conflict", `node ${nodeId} runs no healthy controller of plugin ${plugin.id} to validate with`);
      const volume = known ? known.volume : request;
      const begun = dispatcher.begin(
        {
          pluginId: plugin.id,
          namespace: request.namespace,
          volumeId: request.id,
          nodeId: chosen,
          locks: false,
          method: "csi.controller.validate",
          request: digest,
          params: validateParams(volume),
          change: nodeId,
        },
        request.secrets ?? (store.find(request) ? secrets.of(request) : {}),
      );
      return begun.ok ? ok({ kind: "begun", operation: begun.value }) : begun;
    });
  }

  /** Expands an existing volume to the requested capacity. */
  grow(request: CsiRequest, digest: string): Result<CsiStep> {
    return this.#update(request, digest, (known, secrets) => {
      if (!known?.grows) return ok(READY);
      const { volume } = known;
      const { capacityMin, capacityMax } = volume;
      const change = { capacityMin, capacityMax };
      return this.#begin("csi.controller.expand", volume, expandParams(volume), change, secrets, digest);
    });
  }

  /** Sets mutable parameters at the plugin, also of a volume that is about to be registered. */
  modify(request: CsiRequest, digest: string): Result<CsiStep> {
    return this.#update(request, digest, (known, secrets) => {
      if (known && !known.modifies) return ok(READY);
      const volume = known?.volume ?? request;
      const { pluginId, mutableParameters = {} } = volume;
      const params = { pluginId, externalId: remoteId(volume), mutableParameters };
      return this.#begin("csi.controller.modify", volume, params, { mutableParameters }, secrets, digest);
    });
  }

  /** @param begin begins the operation of a request about an existing volume, or null, if there is none */
  #update(
    request: CsiRequest,
    digest: string,
    begin: (known: Merged | null, secrets: Texts) => Result<CsiStep>,
  ): Result<CsiStep> {
    return refuseIfSealed((): Result<CsiStep> => {
      const checked = this.#checked(request);
      if (!checked.ok) return checked;
      const predecessor = this.#predecessor(request, digest);
      if (predecessor) return ok(predecessor);
      const { known } = checked.value;
      return begin(known, request.secrets ?? (known ? this.dependencies.secrets.of(request) : {}));
    });
  }

  /** Creates a volume with a plugin. @returns "ready" when the volume exists; the caller then updates it */
  create(request: CsiRequest, digest: string): Result<CsiStep> {
    return refuseIfSealed((): Result<CsiStep> => {
      const predecessor = this.#predecessor(request, digest);
      if (predecessor) return ok(predecessor);
      const checked = this.#checked(request);
      if (!checked.ok) return checked;
      if (checked.value.known) return ok(READY);
      if (request.name === "") return refuse("invalid", "validation: missing volume name");
      const { secrets, ...wanted } = request;
      const change: Created = { ...wanted, mount: withoutFlags(request.mount) };
      return this.#begin("csi.controller.create", request, createParams(request), change, secrets ?? {}, digest);
    });
  }

  /** Writes new or changed volumes that their plugins know: all or none, as one event line. */
  async commit(requests: readonly CsiRequest[]): Promise<Result<{ readonly index: number | null }>> {
    const { publisher, operations, store, secrets, claims } = this.dependencies;
    const written = refuseIfSealed(
      (): Result<number> =>
        publisher.commit((): Result<number> => {
          const volumes: CsiVolume[] = [];
          for (const request of requests) {
            const running = operations.locking(request.namespace, request.id);
            if (running) return refuse("conflict", `operation ${running.id} on volume ${request.id} has not ended yet`);
            const checked = this.#checked(request);
            if (!checked.ok) return checked;
            if (checked.value.known?.modifies)
              return refuse("conflict", `volume ${request.id}: its mutable parameters were changed meanwhile`);
            volumes.push(volumeFrom(request, checked.value.plugin, checked.value.known, Date.now()));
          }
          for (const [at, volume] of volumes.entries()) {
            store.write(volume);
            secrets.keep(volume, requests[at]?.secrets ?? null);
            claims.volumeCreated(volume);
          }
          const events = volumes.map((volume) => csiVolumeEvent(REGISTERED, store.shown(volume)));
          return ok(publisher.emitLine(events, volumes.map(csiVolumeBackfill)));
        }),
    );
    return written.ok ? ok({ index: await publisher.indexOf(written.value) }) : written;
  }

  /**
   * Removes an unused volume from the registry; the provider keeps it.
   * @param force also removes unreleased claims of terminal allocations, without undoing them
   */
  async deregister(name: Name, force: boolean): Promise<Result<{ readonly index: number | null }>> {
    const { publisher, store, operations, claims } = this.dependencies;
    const volume = store.find(name);
    if (!volume) return refuse("missing", `volume not found: ${name.id}`);
    const used = force ? claims.heldByLive(name) : claims.heldBy(name);
    if (used) return used;
    const running = operations.locking(name.namespace, name.id);
    if (running) return refuse("conflict", `operation ${running.id} on volume ${name.id} has not ended yet`);
    const line = publisher.commit(() => this.#remove(volume, []));
    return ok({ index: await publisher.indexOf(line) });
  }

  /**
   * Deletes an unused volume at its provider and removes it from the registry.
   * @param given overrides the stored secrets
   */
  delete(name: Name, given: Texts, digest: string): Result<CsiStep> {
    return refuseIfSealed((): Result<CsiStep> => {
      const { store, plugins, secrets } = this.dependencies;
      const volume = store.find(name);
      if (!volume) return refuse("missing", `volume not found: ${name.id}`);
      const predecessor = this.#predecessor(name, digest);
      if (predecessor) return ok(predecessor);
      const used = this.#heldAtProvider(volume);
      if (used) return used;
      if (!plugins.find(volume.pluginId))
        return refuse("missing", `plugin ${quoted(volume.pluginId)} for volume ${quoted(name.id)} not found`);
      const params = { pluginId: volume.pluginId, externalId: remoteId(volume) };
      return this.#begin("csi.controller.delete", volume, params, null, { ...secrets.of(volume), ...given }, digest);
    });
  }

  topologiesOf({ namespace, volumeId }: CsiOperation): readonly Topology[] {
    return this.dependencies.store.find({ namespace, id: volumeId })?.topologies ?? [];
  }

  mayStart({ method, pluginId, namespace, volumeId, params }: CsiOperation): Refusal | null {
    if (method !== "csi.controller.delete") return null;
    const { store } = this.dependencies;
    const volume = store.find({ namespace, id: volumeId });
    if (volume && remoteId(volume) === params["externalId"]) return this.#heldAtProvider(volume);
    const [holder] = store.withRemoteId(pluginId, String(params["externalId"]));
    return holder ? refuse("conflict", `volume in use: ${holder.id}`) : null;
  }

  countsLate({ state, method, namespace, volumeId }: CsiOperation): boolean {
    // Without a row the volume would exist at the provider only.
    if (state !== "failed" || method !== "csi.controller.create") return false;
    return this.dependencies.store.find({ namespace, id: volumeId }) === null;
  }

  /**
   * Deletes a volume that a second controller created after the operation's volume was deleted. It stays at its provider
   * if the volume was deregistered, or if a running creation may return it: plugins create one volume of a name.
   * @throws when no operation can begin now; the node then sends its result again
   */
  doneAgain(operation: CsiOperation, nodeId: string, result: Readonly<Record<string, unknown>>): void {
    const { store, operations, dispatcher, secrets } = this.dependencies;
    const { id, method, state, gen, pluginId, namespace, volumeId } = operation;
    const made = CSI_METHODS["csi.controller.create"].result.safeParse(result);
    if (method !== "csi.controller.create" || state !== "done" || !made.success) return;
    const { externalId } = made.data;
    const isDeleted = (name: Name) => operations.locking(name.namespace, name.id)?.method === "csi.controller.delete";
    if (!store.withRemoteId(pluginId, externalId).every(isDeleted)) return;
    const { externalId: first } = operation.result as CsiResultOf<"csi.controller.create">;
    const later = operations.ofVolume(namespace, volumeId, Number.MAX_SAFE_INTEGER, LATER_OPERATIONS);
    const wasDeleted = later.some((each) => each.gen > gen && isDeletion(each) && each.params["externalId"] === first);
    if (externalId === first && !wasDeleted) return;
    const lock = operations.locking(namespace, volumeId);
    // Results of one volume come in order, so that one of the lock's own node cannot wait for the lock.
    if (lock && !lock.tried.includes(nodeId)) throw new Error(`operation ${lock.id} of the volume has not ended yet`);
    if (lock?.method === "csi.controller.create") return;
    const begun = dispatcher.begin(
      {
        pluginId,
        namespace,
        volumeId,
        nodeId,
        locks: !lock,
        change: null,
        method: "csi.controller.delete",
        request: `made again: ${id}`,
        params: { pluginId, externalId },
      },
      secrets.open(operation.sealed).secrets,
    );
    if (!begun.ok) throw new Error(begun.message);
  }

  failed({ method, namespace, volumeId }: CsiOperation): void {
    if (method === "csi.controller.delete") this.dependencies.claims.volumeCreated({ namespace, id: volumeId });
  }

  succeeded(operation: CsiOperation, result: Readonly<Record<string, unknown>>): Refusal | null {
    const { publisher, store, claims } = this.dependencies;
    const volume = store.find({ namespace: operation.namespace, id: operation.volumeId });
    const backfills = [ended(operation)];
    if (SNAPSHOT_CHANGES.has(operation.method)) publisher.emitLine([], [{ table: CSI_SNAPSHOT, row: [] }]);
    if (operation.method === "csi.controller.create") {
      if (!volume) return this.#created(operation, result as CsiResultOf<"csi.controller.create">);
    } else if (operation.method === "csi.controller.delete") {
      if (volume && remoteId(volume) === operation.params["externalId"]) this.#remove(volume, backfills);
    } else if (operation.method === "csi.controller.expand" && volume) {
      const { capacityBytes, nodeExpansionRequired } = result as CsiResultOf<"csi.controller.expand">;
      const nodeExpansionOwed = (nodeExpansionRequired && claims.oweExpansion(volume)) || volume.nodeExpansionOwed;
      this.#changed({ ...volume, ...(operation.change as Changed), capacityBytes, nodeExpansionOwed }, backfills);
    } else if (operation.method === "csi.controller.modify" && volume) {
      this.#changed({ ...volume, ...(operation.change as Changed) }, backfills);
    }
    return null;
  }

  #changed(change: CsiVolume, backfills: readonly IndexBackfill[]): void {
    const { publisher, store } = this.dependencies;
    const volume = { ...change, modifyTime: Date.now() };
    store.write(volume);
    publisher.emitLine([csiVolumeEvent(REGISTERED, store.shown(volume))], [csiVolumeBackfill(volume), ...backfills]);
  }

  /** Why a volume is not deleted at its provider; null when no claim holds it, directly or under another name. */
  #heldAtProvider(volume: CsiVolume): Refusal | null {
    const { store, claims } = this.dependencies;
    const own = claims.heldBy(volume);
    if (own) return own;
    const sharing = store.withRemoteId(volume.pluginId, remoteId(volume));
    if (sharing.every((name) => claims.heldBy(name) === null)) return null;
    return refuse("conflict", `volume in use: ${volume.id}: held as another volume, which is the same at the provider`);
  }

  /**
   * Validates a request against its plugin and the stored volume.
   * @returns the plugin, and the merged volume if it exists
   */
  #checked(request: CsiRequest): Result<{ readonly plugin: CsiPlugin; readonly known: Merged | null }> {
    const { plugins, store, secrets, claims } = this.dependencies;
    const plugin = plugins.find(request.pluginId);
    if (!plugin) return refuse("missing", `no CSI plugin named: ${request.pluginId} could be found`);
    if (plugin.controllerRequired && plugin.controllersHealthy === 0)
      return refuse("unavailable", `no healthy controllers for CSI plugin: ${plugin.id}`);
    const volume = store.find(request);
    if (!volume) {
      const fault = sizeFault(request.capacityMax, { min: request.capacityMin });
      return fault ? refuse("invalid", `validation: ${fault}`) : ok({ plugin, known: null });
    }
    const used = claims.heldBy(volume) !== null;
    const known = merged(secrets.opened(volume), request, used, store.shown(volume).modes);
    return known.ok ? ok({ plugin, known: known.value }) : known;
  }

  /** The running operation that precedes a new request about a volume. */
  #predecessor({ namespace, id }: Name, digest: string): CsiStep | null {
    const { operations } = this.dependencies;
    const running = operations.locking(namespace, id);
    if (!running) return null;
    const isSame = operations.begunBy(digest)?.id === running.id;
    return { kind: isSame ? "begun" : "busy", operation: running.id };
  }

  #begin(
    method: CsiMethod,
    { namespace, id, pluginId }: Name & { readonly pluginId: string },
    params: Readonly<Record<string, unknown>>,
    change: Created | Changed | null,
    secrets: Texts,
    digest: string,
  ): Result<CsiStep> {
    const { store, dispatcher } = this.dependencies;
    const begun = dispatcher.beginAtController(
      { pluginId, namespace, volumeId: id, locks: true, method, request: digest, params, change },
      store.find({ namespace, id })?.topologies,
      secrets,
    );
    return begun.ok ? ok({ kind: "begun", operation: begun.value }) : begun;
  }

  /**
   * Stores a created volume.
   * @returns a refusal when the plugin returned an existing volume: creation is idempotent by name
   */
  #created(operation: CsiOperation, made: CsiResultOf<"csi.controller.create">): Refusal | null {
    const { publisher, store, plugins, secrets, claims } = this.dependencies;
    const [holder] = store.withRemoteId(operation.pluginId, made.externalId);
    if (holder) return taken(operation, holder);
    const wanted = operation.change as Created;
    const hidden = secrets.open(operation.sealed);
    const { mountFlags = [] } = hidden.params;
    const now = Date.now();
    const plugin = plugins.find(operation.pluginId);
    const volume: CsiVolume = {
      ...wanted,
      mount: wanted.mount && { ...wanted.mount, MountFlags: mountFlags },
      externalId: made.externalId,
      capacityBytes: made.capacityBytes,
      context: made.context,
      topologies: made.topologies.map((Segments) => ({ Segments })),
      ...providerOf(plugin),
      nodeExpansionOwed: false,
      createTime: now,
      modifyTime: now,
      createIndex: null,
      modifyIndex: null,
    };
    store.write(volume);
    secrets.keep(volume, hidden.secrets);
    claims.volumeCreated(volume);
    const backfills = [csiVolumeBackfill(volume), ended(operation)];
    publisher.emitLine([csiVolumeEvent(REGISTERED, store.shown(volume))], backfills);
    return null;
  }

  #remove(volume: CsiVolume, backfills: readonly IndexBackfill[]): number {
    const { publisher, store, claims } = this.dependencies;
    claims.volumeRemoved(volume);
    const last = store.shown({ ...volume, modifyTime: Date.now() });
    store.remove(volume);
    return publisher.emitLine([csiVolumeEvent(DEREGISTERED, last)], [csiVolumeBackfill(volume), ...backfills]);
  }
}

const quoted = JSON.stringify;
const ended = ({ id }: CsiOperation): IndexBackfill => ({ table: CSI_OPERATION, row: [id] });
