import { groupsOfVersion, isTerminal } from "../../cluster/reports/view.ts";
import type { StoredVolume } from "../../contracts/host-volumes.ts";
import type { Kept, ObjectReport } from "../../contracts/reports.ts";
import type { VolumeGroup, VolumeJob } from "../../contracts/volume-requests.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill } from "../../platform/durable/blocking/index-backfill.ts";
import type { ChangeSet } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import { stickyVolumes } from "../../volume-requests/volume-requests.ts";
import type { HostVolumeStore } from "../host/volume-store.ts";
import { type ClaimRequest, PendingRequests } from "./pending-requests.ts";
import { type ClaimStore, VOLUME_CLAIM } from "./store.ts";

const backfill = (id: string): IndexBackfill => ({ table: VOLUME_CLAIM, row: [id] });
/** Advances the table's index; the rows themselves are deleted. */
const GONE = backfill("");

const changeSet = (backfills: readonly IndexBackfill[]): ChangeSet => ({ events: [], backfills });

/**
 * Claims of task groups on sticky host volumes (docs/internals/wire/volumes.md). A claim is made when an allocation is
 * placed on a node that has the volume. If the job or the volume arrives later, the claim is made as soon as both
 * exist. Every change runs inside the transaction of its cause, and the claims take their indexes from that
 * transaction's event line.
 */
export class VolumeClaims {
  readonly #requests: PendingRequests;

  constructor(
    private readonly sql: SqlStorage,
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly store: ClaimStore,
    private readonly volumes: HostVolumeStore,
  ) {
    this.#requests = new PendingRequests(sql);
  }

  /** Claims volumes when an allocation is placed, not on every report: a claim deleted by a user stays deleted. */
  allocationChanged(before: Kept | null, after: Kept | null, report: ObjectReport): ChangeSet {
    const [was, is] = [placeOf(before), placeOf(after)];
    if (was === is) return changeSet([]);
    if (was !== null) this.#requests.forgetAllocation(report.namespace, report.id);
    if (is === null || !after?.jobId) return changeSet([]);
    const { TaskGroup = "" } = JSON.parse(after.body) as { readonly TaskGroup?: string };
    const request: ClaimRequest = {
      namespace: report.namespace,
      allocId: report.id,
      nodeId: is,
      jobId: after.jobId,
      taskGroup: TaskGroup,
    };
    const names = report.sticky ?? this.#requestedVolumes(request, after.jobVersion);
    if (names) return changeSet(this.#claimAll(request, names));
    this.#requests.forJob(request, after.jobVersion);
    return changeSet([]);
  }

  /** Resolves the requests of allocations that were reported before their job. Purging a job removes its claims. */
  jobChanged(after: Kept | null, { namespace, id }: ObjectReport): ChangeSet {
    if (!after) {
      this.#requests.forgetJob(namespace, id);
      return changeSet(this.store.removeOfJob(namespace, id) ? [GONE] : []);
    }
    if (!this.#requests.hasForJob(namespace, id)) return changeSet([]);
    const { TaskGroups } = JSON.parse(after.body) as VolumeJob;
    const asked = new Map(
      (TaskGroups ?? [])
        .map(({ Name = "" }): [string, string[]] => [Name, stickyVolumes(TaskGroups, Name)])
        .filter(([, names]) => names.length > 0),
    );
    const requests = this.#requests.takeForJob(namespace, id, after.jobVersion, [...asked.keys()]);
    const backfills = requests.flatMap((request) => this.#claimAll(request, asked.get(request.taskGroup) ?? []));
    // Replaced claims are dropped, so the event line does not grow with the number of waiting allocations.
    return changeSet(backfills.filter(({ row: [claim = ""] }) => this.store.find(claim)));
  }

  /** Resolves the requests for a new or renamed volume. @returns index backfills of the claims made */
  volumeCreated(volume: StoredVolume): IndexBackfill[] {
    const requests = this.#requests.takeForVolume(volume.nodeId, volume.namespace, volume.name);
    return requests.flatMap((request) => this.#claim(request, volume));
  }

  /** Renames a volume in its claims. @returns their index backfills */
  volumeRenamed({ id, name }: StoredVolume): IndexBackfill[] {
    return this.store.rename(id, name).map(backfill);
  }

  /** Removes all claims on a deleted volume. */
  volumeRemoved(id: string): IndexBackfill[] {
    return this.store.removeOfVolume(id) ? [GONE] : [];
  }

  /** Deletes a claim. @returns the index, if the event stream has assigned it already */
  async delete(id: string, namespace: string): Promise<Result<{ readonly index: number | null }>> {
    const line = this.publisher.commit(() => {
      if (this.store.find(id)?.namespace !== namespace) return null;
      this.store.remove(id);
      return this.publisher.emitLine([], [GONE]);
    });
    if (line === null) return refuse("missing", "task group volume claim does not exist");
    return ok({ index: await this.publisher.indexOf(line) });
  }

  /** The sticky volumes an allocation's group requests; null while the job, in the given version, is unknown. */
  #requestedVolumes({ namespace, jobId, taskGroup }: ClaimRequest, version: number | null): string[] | null {
    const job = groupsOfVersion(this.sql, namespace, jobId, version);
    return job && stickyVolumes(JSON.parse(job.groups ?? "[]") as VolumeGroup[], taskGroup);
  }

  #claimAll(request: ClaimRequest, names: readonly string[]): IndexBackfill[] {
    return names.flatMap((name) => {
      const volume = this.#volumeNamed(request, name);
      if (volume) return this.#claim(request, volume);
      this.#requests.forVolume(request, name);
      return [];
    });
  }

  #volumeNamed({ nodeId, namespace }: ClaimRequest, name: string): StoredVolume | null {
    const holder = this.volumes.holder(nodeId, name);
    const volume = holder === null ? null : this.volumes.find(holder);
    return volume?.made && volume.namespace === namespace && volume.name === name ? volume : null;
  }

  /**
   * Assigns a group's claim on a volume to an allocation: moves the claim of a terminal allocation, replaces that of
   * a live one.
   */
  #claim({ namespace, jobId, taskGroup, allocId }: ClaimRequest, volume: StoredVolume): IndexBackfill[] {
    const claimant = { namespace, jobId, taskGroup, volumeId: volume.id };
    const known = this.store.of(claimant);
    if (known?.allocId === allocId) return [];
    if (known && isTerminal(this.sql, namespace, known.allocId)) {
      this.store.move(known.id, allocId);
      return [backfill(known.id)];
    }
    if (known) this.store.remove(known.id);
    const id = crypto.randomUUID();
    this.store.insert({ ...claimant, id, volumeName: volume.name, allocId, createIndex: null, modifyIndex: null });
    return [backfill(id)];
  }
}

/** The node an allocation is placed on; null without a node, or when the allocation is terminal. */
const placeOf = (allocation: Kept | null): string | null =>
  allocation && !allocation.terminal ? allocation.nodeId || null : null;
