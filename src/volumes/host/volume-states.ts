import type { NodeView, VolumeNode } from "../../cluster/nodes/view.ts";
import type { State, StoredVolume } from "../../contracts/host-volumes.ts";
import type { Node } from "../../contracts/node.ts";
import { refuse } from "../../lib/result.ts";
import { type ChangeSet, NO_CHANGES, type NodeFollower } from "../../publishing/change-set.ts";
import type { VolumeClaims } from "../host-claims/claims.ts";
import type { VolumeOperations } from "./volume-operations.ts";
import { DELETED, type HostVolumeStore, hostVolumeBackfill, hostVolumeEvent } from "./volume-store.ts";

/** The node fields that determine its volumes' states. */
type StatesNode = Pick<VolumeNode, "status" | "pool" | "isUsable">;

/** Updates the states of host volumes when their nodes change; runs inside the transaction of the node's change. */
export class VolumeStates implements NodeFollower {
  constructor(
    private readonly nodes: NodeView,
    private readonly store: HostVolumeStore,
    private readonly operations: VolumeOperations,
    private readonly claims: VolumeClaims,
  ) {}

  /**
   * Updates the states of a node's volumes; a removed node removes its volumes.
   * @returns the events for the node's line
   */
  nodeChanged(id: string, before: Node | null, after: Node | null, type: string): ChangeSet {
    if (!after) return before ? this.#nodeGone(id) : NO_CHANGES;
    if (before && volumeState(before) === volumeState(after)) return NO_CHANGES;
    const usable = new Set(Object.values(after.HostVolumes ?? {}).map(({ ID }) => ID));
    const node = { status: after.Status, pool: after.NodePool, isUsable: (id: string) => usable.has(id) };
    return this.#follow(node, this.store.on(id), type);
  }

  volumesChanged(nodeId: string, ids: readonly string[], type: string): ChangeSet {
    const node = this.nodes.find(nodeId);
    const volumes = ids.map((id) => this.store.find(id)).filter((volume) => volume?.nodeId === nodeId);
    return node
      ? this.#follow(
          node,
          volumes.filter((volume) => volume !== null),
          type,
        )
      : NO_CHANGES;
  }

  #follow(node: StatesNode, volumes: readonly StoredVolume[], type: string): ChangeSet {
    const changed = volumes
      .filter(({ made }) => made)
      .map((volume) => ({ was: volume, is: { ...volume, nodePool: node.pool, state: stateOn(node, volume) } }))
      .filter(({ was, is }) => was.state !== is.state || was.nodePool !== is.nodePool)
      .map(({ is }) => is);
    for (const volume of changed) this.store.update(volume);
    return {
      events: changed.map((volume) => hostVolumeEvent(type, volume)),
      backfills: changed.map(hostVolumeBackfill),
    };
  }

  /** The volume ids on a node that the registry does not know; the node keeps them until an operator removes them. */
  unknownOn(nodeId: string, ids: readonly string[]): string[] {
    return ids.filter((id) => this.store.find(id)?.nodeId !== nodeId);
  }

  #nodeGone(nodeId: string): ChangeSet {
    for (const { id } of this.operations.runningOn(nodeId)) {
      this.operations.end(id, refuse("unavailable", `node ${nodeId} was removed`));
      queueMicrotask(() => this.operations.wake(id));
    }
    const volumes = this.store.on(nodeId);
    for (const { id } of volumes) this.store.remove(id);
    const made = volumes.filter((volume) => volume.made);
    return {
      events: made.map((volume) => hostVolumeEvent(DELETED, volume)),
      backfills: made.flatMap((volume) => [hostVolumeBackfill(volume), ...this.claims.volumeRemoved(volume.id)]),
    };
  }
}

/** The state of a volume according to its node's last report, matched by id (docs/internals/wire/volumes.md). */
export function stateOn(node: Pick<VolumeNode, "status" | "isUsable">, volume: StoredVolume): State {
  if (node.status === "ready" || node.status === "initializing") {
    if (node.isUsable(volume.id)) return node.status === "ready" ? "ready" : volume.state;
    return volume.state === "ready" ? "unavailable" : volume.state;
  }
  return "unavailable";
}

/** The node fields that determine its volumes' states. */
const volumeState = ({ Status, NodePool, HostVolumes }: Node): string =>
  JSON.stringify([Status, NodePool, HostVolumes]);
