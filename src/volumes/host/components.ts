import { NodeView } from "../../cluster/nodes/view.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { NodeFollower } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { VolumeClaims } from "../host-claims/claims.ts";
import { ClaimStore, VOLUME_CLAIM } from "../host-claims/store.ts";
import { HostVolumes } from "./host-volumes.ts";
import { VOLUME_OPERATION, VolumeOperations } from "./volume-operations.ts";
import { VolumeStates } from "./volume-states.ts";
import { HOST_VOLUME, HostVolumeStore } from "./volume-store.ts";

/** Wires the components of host volumes and sticky claims in the cluster registry. */
export class HostVolumeComponents {
  readonly store: HostVolumeStore;
  readonly claimStore: ClaimStore;
  readonly claims: VolumeClaims;
  readonly states: VolumeStates;
  readonly volumes: HostVolumes;
  readonly #operations: VolumeOperations;

  constructor(sql: SqlStorage, env: Env, publisher: EventPublisher<IndexBackfill>, outbox: Outbox) {
    this.store = new HostVolumeStore(sql);
    this.claimStore = new ClaimStore(sql);
    this.claims = new VolumeClaims(sql, publisher, this.claimStore, this.store);
    this.#operations = new VolumeOperations(sql, env, outbox);
    this.states = new VolumeStates(new NodeView(sql), this.store, this.#operations, this.claims);
    this.volumes = new HostVolumes(sql, publisher, this.store, this.#operations, this.claims);
  }

  get followers(): readonly NodeFollower[] {
    return [this.states];
  }

  get indexedRows(): Readonly<Record<string, IndexedRows>> {
    return { [HOST_VOLUME]: this.store, [VOLUME_OPERATION]: this.#operations, [VOLUME_CLAIM]: this.claimStore };
  }

  get timed(): readonly Timed[] {
    return [this.volumes];
  }
}
