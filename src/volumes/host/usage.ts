import {
  groupsOfVersion,
  groupsOfVersions,
  hasJob,
  type JobGroups,
  type LiveAllocation,
  liveOnNode,
} from "../../cluster/reports/view.ts";
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
 * which requests a volume of that name in the allocation's version of the job. Costs one index walk over the node's
 * live allocations, and one read of each of their jobs.
 */
export class VolumeUsage {
  constructor(private readonly sql: SqlStorage) {}

  /** The ids of the allocations that use a volume. */
  usersOf(volume: Pick<StoredVolume, "id" | "nodeId" | "namespace" | "name">): string[] {
    return [...new Set([...this.#askers(volume), ...holdersOf(this.sql, volume.id)])].sort();
  }

  #askers({ nodeId, namespace, name }: Pick<StoredVolume, "nodeId" | "namespace" | "name">): string[] {
    const jobs = new JobRequests(this.sql, namespace);
    return liveOnNode(this.sql, nodeId, namespace)
      .filter((allocation) => {
        const { isReported, groups } = jobs.of(allocation);
        if (!isReported && outlivesJob(this.sql, namespace, allocation.id)) return true;
        return groups ? requestsVolume(groups, allocation, name) : isReported;
      })
      .map(({ id }) => id);
  }
}

/** The job of an allocation. */
interface JobOfAllocation {
  readonly isReported: boolean;
  /** Task groups of the versions that the allocation may be of; null = it may request any volume. */
  readonly groups: readonly TaskGroup[] | null;
}

/** Task groups by job and version, each read once. */
class JobRequests {
  readonly #known = new Map<string, JobOfAllocation>();

  constructor(
    private readonly sql: SqlStorage,
    private readonly namespace: string,
  ) {}

  of({ job_id, job_version }: LiveAllocation): JobOfAllocation {
    const jobId = job_id ?? "";
    const key = JSON.stringify([jobId, job_version]);
    const job = this.#known.get(key) ?? this.#read(jobId, job_version);
    this.#known.set(key, job);
    return job;
  }

  #read(jobId: string, version: number | null): JobOfAllocation {
    const versions = version === null ? groupsOfVersions(this.sql, this.namespace, jobId) : this.#in(jobId, version);
    return {
      isReported: hasJob(this.sql, this.namespace, jobId),
      groups: versions.length === 0 ? null : versions.flatMap(groupsOf),
    };
  }

  #in(jobId: string, version: number): JobGroups[] {
    const found = groupsOfVersion(this.sql, this.namespace, jobId, version);
    return found ? [found] : [];
  }
}

const groupsOf = ({ groups }: JobGroups): TaskGroup[] => (JSON.parse(groups ?? "[]") as TaskGroup[] | null) ?? [];

function requestsVolume(groups: readonly TaskGroup[], allocation: LiveAllocation, name: string): boolean {
  const [index = ""] = /\[\d+\]$/.exec(allocation.name ?? "") ?? [];
  return groups
    .filter(({ Name }) => Name === allocation.task_group)
    .flatMap(({ Volumes }) => Object.values(Volumes ?? {}))
    .some(
      ({ Type, Source = "", PerAlloc = false }) =>
        Type === "host" && (PerAlloc ? `${Source}${index}` : Source) === name,
    );
}

/** The refusal to delete a used volume; null when it is unused. */
export const inUse = ({ id }: StoredVolume, users: readonly string[]): Refusal | null =>
  users.length === 0
    ? null
    : refuse("conflict", `could not delete volume ${id} in use by alloc ${namesOf(users).join(", ")}`);
