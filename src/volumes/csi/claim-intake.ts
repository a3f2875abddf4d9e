import { type LiveAllocation, liveOfJob } from "../../cluster/reports/view.ts";
import type { Kept, ObjectReport } from "../../contracts/reports.ts";
import { ok } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import { Refused } from "../../platform/durable/refused.ts";
import type { ChangeSet } from "../../publishing/change-set.ts";
import { volumeIdOf } from "../../volume-requests/volume-requests.ts";
import type { ClaimController } from "./claim-controller.ts";
import type { CsiClaimStore, NewClaim } from "./claim-store.ts";
import type { JobVolumeRequest, JobVolumes } from "./job-volumes.ts";
import type { CsiSecrets } from "./secrets.ts";
import { CSI_VOLUME } from "./volume-store.ts";

/** The fields of an allocation that determine its claims. */
type Allocation = Pick<LiveAllocation, "id" | "node_id" | "name" | "task_group" | "job_version">;

type VolumeRequest = Pick<
  JobVolumeRequest,
  "source" | "perAlloc" | "readOnly" | "accessMode" | "attachmentMode" | "mount"
>;

/** Wakes readers of volumes before the claims' own event lines are written. */
const CHANGED: ChangeSet = { events: [], backfills: [{ table: CSI_VOLUME, row: [] }] };
const UNCHANGED: ChangeSet = { events: [], backfills: [] };

/**
 * Records claims for reported allocations and jobs, inside the transaction of the report, so the volume is in use at
 * once. Reports may arrive in any order: allocation before job, either before the volume.
 */
export class ClaimIntake {
  constructor(
    private readonly sql: SqlStorage,
    private readonly claims: CsiClaimStore,
    private readonly jobVolumes: JobVolumes,
    private readonly secrets: CsiSecrets,
    private readonly controller: ClaimController,
  ) {}

  allocationChanged(_before: Kept | null, after: Kept | null, report: ObjectReport): ChangeSet {
    const { namespace, id } = report;
    if (!after || after.terminal) return this.#changed(this.claims.touchAllocation(namespace, id));
    if (!after.nodeId) return UNCHANGED;
    const own = report.csiVolumes;
    const ofJob = own || !after.jobId ? [] : this.jobVolumes.of(namespace, after.jobId);
    if (!own?.length && ofJob.length === 0) return UNCHANGED;
    const body = JSON.parse(after.body) as { Name?: string; TaskGroup?: string };
    const allocation: Allocation = {
      id,
      node_id: after.nodeId,
      name: body.Name ?? "",
      task_group: body.TaskGroup ?? "",
      job_version: after.jobVersion,
    };
    const wanted = own
      ? own.map((ask) => ({ ...ask, mount: ask.mount && this.#sealed(ask.mount) }))
      : ofJob.filter((ask) => isRequestedBy(ask, allocation));
    return this.#changed(this.#claim(namespace, allocation, wanted));
  }

  /** Records the claims of allocations that were reported before their job. */
  jobChanged(after: Kept | null, { namespace, id }: ObjectReport): ChangeSet {
    if (!after) {
      this.jobVolumes.forget(namespace, id);
      return UNCHANGED;
    }
    const recorded = refuseIfSealed(() => ok(this.jobVolumes.record(namespace, id, after.jobVersion, after.body)));
    if (!recorded.ok) throw new Refused(recorded);
    if (!recorded.value) return UNCHANGED;
    const live = liveOfJob(this.sql, namespace, id);
    const all = this.jobVolumes.of(namespace, id);
    const made = live.map((allocation) =>
      this.#claim(
        namespace,
        allocation,
        all.filter((ask) => isRequestedBy(ask, allocation)),
      ),
    );
    return this.#changed(made.includes(true));
  }

  /** @returns whether any claim was made */
  #claim(
    namespace: string,
    allocation: Allocation,
    asks: readonly (VolumeRequest | (Omit<VolumeRequest, "mount"> & Pick<NewClaim, "mount">))[],
  ) {
    const now = Date.now();
    if (!allocation.node_id) return false;
    const made = asks.map((ask) =>
      this.claims.insert(
        {
          namespace,
          volumeId: volumeIdOf(ask, allocation.name ?? ""),
          allocId: allocation.id,
          nodeId: allocation.node_id ?? "",
          mode: ask.readOnly ? "read" : "write",
          accessMode: ask.accessMode,
          attachmentMode: ask.attachmentMode,
          mount: ask.mount,
        },
        now,
      ),
    );
    return made.includes(true);
  }

  #sealed(mount: unknown): Uint8Array {
    const sealed = refuseIfSealed(() => ok(this.secrets.sealForClaim(mount)));
    if (!sealed.ok) throw new Refused(sealed);
    return sealed.value;
  }

  #changed(anything: boolean): ChangeSet {
    if (!anything) return UNCHANGED;
    this.controller.soon();
    return CHANGED;
  }
}

const isRequestedBy = (
  { taskGroup, firstVersion, lastVersion, lacking }: JobVolumeRequest,
  { task_group, job_version }: Allocation,
): boolean => {
  const version = job_version ?? lastVersion;
  const isWithin = (first: number, last: number) => first <= version && version <= last;
  return task_group === taskGroup && isWithin(firstVersion, lastVersion) && !lacking.some((run) => isWithin(...run));
};
