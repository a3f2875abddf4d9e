import { isOpen, METHODS } from "@sallyport/agent-protocol";
import { NodeView, type VolumeNode } from "../../cluster/nodes/view.ts";
import type {
  Begun,
  FoundVolume,
  HostVolumeRequest,
  Outcome,
  Search,
  State,
  Step,
  StoredVolume,
  VolumeMethod,
} from "../../contracts/host-volumes.ts";
import type { OperationResult } from "../../contracts/node-operation.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import type { OutboxRow } from "../../platform/durable/outbox-delivery.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import type { VolumeClaims } from "../host-claims/claims.ts";
import { changeOf, paramsOf } from "./change.ts";
import { hasCapacity, nodeNamed, obstacleOf, search, unreachable } from "./placement.ts";
import { namesOf, updateRefusal } from "./update-rules.ts";
import { inUse, VolumeUsage } from "./usage.ts";
import {
  type Change,
  operationBackfill,
  refusalOf,
  type VolumeOperation,
  type VolumeOperations,
} from "./volume-operations.ts";
import { stateOn } from "./volume-states.ts";
import { DELETED, type HostVolumeStore, hostVolumeBackfill, hostVolumeEvent, REGISTERED } from "./volume-store.ts";

const quoted = JSON.stringify;

/**
 * Creates, registers, updates and deletes host volumes. Every change is decided here and stored before its node is
 * called. Read by the volume routes through the registry object.
 */
export class HostVolumes implements Timed {
  readonly due = "SELECT min(due) FROM volume_operations WHERE due IS NOT NULL";
  readonly #nodes: NodeView;
  readonly #usage: VolumeUsage;

  constructor(
    sql: SqlStorage,
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly store: HostVolumeStore,
    private readonly operations: VolumeOperations,
    private readonly claims: VolumeClaims,
  ) {
    this.#nodes = new NodeView(sql);
    this.#usage = new VolumeUsage(sql);
  }

  /** A created volume with its users. */
  read(id: string): FoundVolume | null {
    const volume = this.store.find(id);
    return volume?.made ? { volume, users: this.#usage.usersOf(volume) } : null;
  }

  /** The outcome of an operation; null while it runs after `waitMs`. @param last the caller does not poll again */
  async outcome(id: string, waitMs: number, last: boolean): Promise<Outcome | null> {
    await this.operations.ended(id, waitMs, last);
    const operation = this.operations.find(id);
    if (operation && isOpen(operation.state)) return null;
    const refusal = operation ? operation.refusal : refuse("missing", `operation ${id} is not known any more`);
    return { refusal, volume: operation && this.store.find(operation.volumeId), index: operation?.index ?? null };
  }

  /** Ends the wait of a caller that has left, so that its repeated request joins the operation. */
  leave(id: string): void {
    this.operations.leave(id);
  }

  /** The node's last message about an operation of unknown outcome; null without one. */
  doubt(id: string): string | null {
    return this.operations.find(id)?.doubt ?? null;
  }

  /** Creates a volume on the named node, or on the first node that is feasible. */
  create(request: HostVolumeRequest, begun: Begun, from: Search): Result<Step> {
    const again = this.operations.begunBy(begun.request, begun);
    if (again) return ok(this.#resume(again));
    const place = request.nodeId === "" ? search(this.#nodes, this.store, request, from) : this.#nodeForCreate(request);
    if (!place.ok) return this.#joined(begun) ?? place;
    if ("from" in place.value) return ok({ kind: "searching", search: place.value });
    return this.#make("dhv.create", request, place.value, begun);
  }

  /** Registers an existing path of a node as a volume. */
  register(request: HostVolumeRequest, begun: Begun): Result<Step> {
    const again = this.operations.begunBy(begun.request, begun);
    if (again) return ok(this.#resume(again));
    const node = nodeNamed(this.#nodes, request, request.id ?? request.name);
    if (!node.ok) return this.#joined(begun) ?? node;
    const refusal = this.#nameRefusal(node.value.id, request.name) ?? this.#capacityRefusal(node.value);
    if (refusal) return this.#joined(begun) ?? refusal;
    return this.#make("dhv.register", request, node.value, begun);
  }

  /** Updates an existing volume. */
  update(method: VolumeMethod, request: HostVolumeRequest & { readonly id: string }, begun: Begun): Result<Step> {
    const volume = this.store.find(request.id);
    if (!volume || volume.namespace !== request.namespace)
      return refuse("missing", `cannot update volume ${quoted(request.id)}: volume does not exist`);
    const predecessor = this.#predecessor(volume.id, begun);
    if (predecessor) return ok(predecessor);
    const refusal = updateRefusal(volume, request, this.#usage.usersOf(volume));
    if (refusal) return refusal;
    const node = this.#nodes.find(volume.nodeId);
    if (!node) return refuse("unavailable", `node ${volume.nodeId} is unknown`);
    if (node.status !== "ready" || !node.hasAgent) return unreachable(node);
    const taken = request.name === volume.name ? null : this.#nameRefusal(node.id, request.name);
    if (taken) return taken;
    return this.#begin(method, volume, changeOf(request, volume), begun);
  }

  /**
   * Deletes an unused volume.
   * @param force deletes without the node when it is removed or unreachable. An operation of unknown outcome is given
   *   up: the node forgets the volume, or only the record is removed. A volume in use is never deleted
   */
  async delete(id: string, namespace: string, force: boolean, begun: Begun): Promise<Result<Step>> {
    const volume = this.store.find(id);
    if (!volume || volume.namespace !== namespace) return refuse("missing", `no such volume: ${id}`);
    const node = this.#nodes.find(volume.nodeId);
    const reachable = node?.status === "ready" && node.hasAgent;
    const running = this.operations.running(id);
    const isStuck = running?.state === "unknown";
    const predecessor = this.#predecessor(id, begun);
    if (predecessor && !(force && (isStuck || !reachable))) return ok(predecessor);
    const users = this.#usage.usersOf(volume);
    if (users.length > 0)
      return refuse("conflict", `volume ${id} in use by allocations: [${namesOf(users).join(" ")}]`);
    if (reachable && !(isStuck && running.forced))
      return this.#begin("dhv.delete", volume, null, begun, { force, running });
    if (force) return ok({ kind: "done", index: await this.#drop(volume) });
    if (!node) return refuse("conflict", "volume cannot be removed from unknown node without force=true");
    return refuse(
      "unavailable",
      `${unreachable(node).message}: volume cannot be removed from unreachable node without force=true`,
    );
  }

  /**
   * Commits the result of an operation; results of completed operations change nothing.
   * @returns whether the operation is known here
   */
  async operationDone(nodeId: string, id: string, result: OperationResult): Promise<boolean> {
    const operation = this.operations.find(id);
    if (!operation) return false;
    if (!isOpen(operation.state) || operation.nodeId !== nodeId) return true;
    const ended = this.publisher.commit(() => {
      if (result.state === "done") this.#succeed(operation, result.result);
      // The node is queried again until the outcome is known.
      else if (result.state === "unknown") this.operations.setUncertain(id, result.error.message);
      // Also when the operation is given up: the volume keeps its previous state and can be changed or deleted.
      else this.#fail(operation, refusalOf(result.error));
      return result.state !== "unknown";
    });
    if (!ended) return true;
    await this.publisher.published();
    this.operations.wake(id);
    return true;
  }

  /** Sends operations to their nodes; see `VolumeOperations.deliver`. */
  deliver(rows: readonly OutboxRow[]): Promise<() => void> {
    return this.operations.deliver(
      rows,
      ({ method, volumeId }) => {
        const volume = method === "dhv.delete" ? this.store.find(volumeId) : null;
        return volume && inUse(volume, this.#usage.usersOf(volume));
      },
      (operation, refusal) => this.#abandon(operation, refusal),
    );
  }

  /** Fails the operations on a node whose agent was removed; inside the caller's transaction. */
  abandon(nodeId: string): void {
    const refusal = refuse("unavailable", `the agent of node ${nodeId} was removed`);
    for (const operation of this.operations.runningOn(nodeId)) this.#abandon(operation, refusal);
  }

  async onAlarm(now: number): Promise<void> {
    this.publisher.commit(() => this.operations.forget(now));
  }

  /** The running operation of an equal request, when there is no room for a second volume; null without one. */
  #joined({ request }: Begun): Result<Step> | null {
    const same = this.operations.openOf(request);
    return same && ok(this.#resume(same));
  }

  /** The running operation that precedes a new request about a volume. */
  #predecessor(volumeId: string, { request }: Begun): Step | null {
    const same = this.operations.sameAs(volumeId, request);
    if (same) return this.#resume(same);
    const running = this.operations.running(volumeId);
    return running && { kind: "busy", operation: running.id };
  }

  /** Answers a retried request. When the outcome is unknown, the node is queried at once. */
  #resume(operation: VolumeOperation): Step {
    if (operation.state === "unknown") {
      this.publisher.commit(() => this.operations.again(operation));
      void this.operations.send(operation.volumeId);
    }
    return { kind: "begun", operation: operation.id };
  }

  #nodeForCreate(request: HostVolumeRequest): Result<VolumeNode> {
    const node = nodeNamed(this.#nodes, request, request.name);
    if (!node.ok) return node;
    const taken = this.#nameRefusal(node.value.id, request.name);
    if (taken) return taken;
    const obstacle = node.value.eligible ? obstacleOf(request)(node.value) : "not eligible";
    if (obstacle === null) return this.#capacityRefusal(node.value) ?? node;
    return refuse(
      "conflict",
      `could not place volume ${quoted(request.name)}: node ${node.value.id} is not feasible for volume: it is ${obstacle}`,
    );
  }

  #nameRefusal(nodeId: string, name: string): Refusal | null {
    const holder = this.store.holder(nodeId, name);
    return holder === null ? null : refuse("conflict", "volume name already exists on this node");
  }

  #capacityRefusal(node: VolumeNode): Refusal | null {
    return hasCapacity(this.store, node)
      ? null
      : refuse("exhausted", `node ${node.id} has as many volumes as a node may have`);
  }

  /** Reserves a new volume's name on its node and begins its creation. */
  #make(method: VolumeMethod, request: HostVolumeRequest, node: VolumeNode, begun: Begun): Result<Step> {
    const now = Date.now();
    const { name, pluginId, wanted, capacityBytes, hostPath } = changeOf(request, null);
    const volume: StoredVolume = {
      id: crypto.randomUUID(),
      namespace: request.namespace,
      name,
      nodeId: node.id,
      nodePool: node.pool,
      pluginId,
      state: "pending",
      made: false,
      wanted,
      capacityBytes,
      hostPath,
      createTime: now,
      modifyTime: now,
      createIndex: null,
      modifyIndex: null,
    };
    return this.publisher.commit(() => {
      this.store.insert(volume);
      return this.#begin(method, volume, { name, pluginId, wanted, capacityBytes, hostPath }, begun);
    });
  }

  /** @param running an operation that this one replaces */
  #begin(
    method: VolumeMethod,
    volume: StoredVolume,
    change: Change | null,
    { request }: Begun,
    { force = false, running = null }: { force?: boolean; running?: VolumeOperation | null } = {},
  ): Result<Step> {
    const params = METHODS[method].params.parse(paramsOf(method, volume, change, force));
    const operation = this.publisher.commit(() => {
      if (running) {
        this.operations.end(running.id, refuse("conflict", `volume ${volume.id} was given up`));
        queueMicrotask(() => this.operations.wake(running.id));
      }
      if (change) this.store.hold(volume.nodeId, change.name, volume.id);
      const gen = this.store.nextGen(volume.id);
      return this.operations.begin({
        volumeId: volume.id,
        nodeId: volume.nodeId,
        method,
        gen,
        request,
        params,
        change,
      });
    });
    void this.operations.send(volume.id);
    return ok({ kind: "begun", operation });
  }

  #succeed(operation: VolumeOperation, result: Readonly<Record<string, unknown>>): void {
    const volume = this.store.find(operation.volumeId);
    if (!volume) this.operations.end(operation.id, null);
    else if (!operation.change) this.#deleted(operation, volume);
    else this.#made(operation, operation.change, volume, result);
  }

  #made(
    operation: VolumeOperation,
    change: Change,
    volume: StoredVolume,
    result: Readonly<Record<string, unknown>>,
  ): void {
    const made = operation.method === "dhv.create" ? METHODS["dhv.create"].result.safeParse(result) : null;
    if (made && !made.success) {
      this.#fail(operation, refuse("faulty", `node ${volume.nodeId} has made the volume and did not say where`));
      return;
    }
    const changed: StoredVolume = {
      ...volume,
      ...change,
      ...(made && { hostPath: made.data.path, capacityBytes: made.data.bytes || change.capacityBytes }),
      made: true,
      modifyTime: Date.now(),
    };
    this.#write(operation, REGISTERED, { ...changed, state: this.#stateOf(changed) });
  }

  #deleted(operation: VolumeOperation, volume: StoredVolume): void {
    // The volume came into use during the deletion; it is kept as unavailable.
    const used = inUse(volume, this.#usage.usersOf(volume));
    if (used) {
      this.#write(operation, REGISTERED, { ...volume, state: "unavailable", modifyTime: Date.now() }, used);
    } else this.#remove(volume, operation);
  }

  /** Writes a changed volume, emits its event, and completes the operation. */
  #write(operation: VolumeOperation, type: string, volume: StoredVolume, refusal: Refusal | null = null): void {
    this.store.update(volume);
    const renamed = this.store.releaseNames(volume.id, volume.name) ? this.claims.volumeRenamed(volume) : [];
    const made = this.claims.volumeCreated(volume);
    const backfills = [hostVolumeBackfill(volume), operationBackfill(operation), ...renamed, ...made];
    this.publisher.emit([hostVolumeEvent(type, volume)], backfills);
    this.operations.end(operation.id, refusal);
  }

  /** Removes a volume and emits its event, unless it was never visible. @returns the event line */
  #remove(volume: StoredVolume, operation: VolumeOperation | null): number | null {
    this.store.remove(volume.id);
    if (operation) this.operations.end(operation.id, null);
    if (!volume.made) return null;
    const backfills = [
      hostVolumeBackfill(volume),
      ...(operation ? [operationBackfill(operation)] : []),
      ...this.claims.volumeRemoved(volume.id),
    ];
    return this.publisher.emitLine([hostVolumeEvent(DELETED, volume)], backfills);
  }

  #abandon(operation: VolumeOperation, refusal: Refusal): void {
    this.#fail(operation, refusal);
    queueMicrotask(() => this.operations.wake(operation.id));
  }

  /** Fails an operation: an uncreated volume is removed, names of a rename are released. */
  #fail(operation: VolumeOperation, refusal: Refusal): void {
    const stored = this.operations.find(operation.id);
    if (!stored || !isOpen(stored.state)) return;
    const volume = this.store.find(operation.volumeId);
    if (volume && !volume.made) this.store.remove(volume.id);
    else if (volume) this.store.releaseNames(volume.id, volume.name);
    this.operations.end(operation.id, refusal);
  }

  /** Removes a volume without its node. @returns the index, if the event stream has assigned it already */
  async #drop(volume: StoredVolume): Promise<number | null> {
    const running = this.operations.running(volume.id);
    const line = this.publisher.commit(() => {
      if (running)
        this.operations.end(running.id, refuse("conflict", `volume ${volume.id} was deleted without its node`));
      return this.#remove(volume, null);
    });
    const index = line === null ? null : await this.publisher.indexOf(line);
    if (running) this.operations.wake(running.id);
    return index;
  }

  #stateOf(volume: StoredVolume): State {
    const node = this.#nodes.find(volume.nodeId);
    return node ? stateOn(node, { ...volume, state: "pending" }) : "unavailable";
  }
}
