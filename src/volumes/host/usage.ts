import { type JobGroups, jobGroups, type LiveAllocation, liveOnNode } from "../../cluster/reports/view.ts";
import type { StoredVolume } from "../../contracts/host-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { holdersOf, outlivesJob } from "../host-claims/view.ts";
import { namesOf } from "./update-rules.ts";

interface TaskGroup {
  readonly Name?: string;
  readonly Volumes?: Readonly<Record<string, VolumeRequest>> | null;
}
interface VolumeRequest {
  readonly Type?: string;
  readonly Source?: string;
  readonly PerAlloc?: boolean;
}

/**
 * Determines the users of a host volume: live allocations that hold a claim on it, or that run on its node in a group
 * which requests a volume of that name. Costs one index walk over the node's live allocations.
 */
export class VolumeUsage {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** The ids of the allocations that use a volume. */
  usersOf(volume: Pick<StoredVolume, "id" | "nodeId" | "namespace" | "name">): string[] {
    return [...new Set([...this.#askers(volume), ...holdersOf(this.#sql, volume.id)])].sort();
  }

  #askers({ nodeId, namespace, name }: Pick<StoredVolume, "nodeId" | "namespace" | "name">): string[] {
    const jobs = new Map<string, JobGroups | null>();
    return liveOnNode(this.#sql, nodeId, namespace)
      .filter((allocation) => {
        const jobId = allocation.job_id ?? "";
        if (!jobs.has(jobId)) jobs.set(jobId, jobGroups(this.#sql, namespace, jobId));
        const job = jobs.get(jobId);
        return job ? mayUse(allocation, job, name) : outlivesJob(this.#sql, namespace, allocation.id);
      })
      .map(({ id }) => id);
  }
}

/** An allocation of an unknown job version may request any volume. */
function mayUse(allocation: LiveAllocation, job: JobGroups, name: string): boolean {
  const known = allocation.job_version === null || job.version === null || allocation.job_version === job.version;
  if (!known) return true;
  const groups = JSON.parse(job.groups ?? "[]") as TaskGroup[] | null;
  const group = (groups ?? []).find(({ Name }) => Name === allocation.task_group);
  const [index = ""] = /\[\d+\]$/.exec(allocation.name ?? "") ?? [];
  return Object.values(group?.Volumes ?? {}).some(
    ({ Type, Source = "", PerAlloc = false }) => Type === "host" && (PerAlloc ? `${Source}${index}` : Source) === name,
  );
}

/** The refusal to delete a used volume; null when it is unused. */
export const inUse = ({ id }: StoredVolume, users: readonly string[]): Refusal | null =>
  users.length === 0
    ? null
    : refuse("conflict", `could not delete volume ${id} in use by alloc ${namesOf(users).join(", ")}`);
