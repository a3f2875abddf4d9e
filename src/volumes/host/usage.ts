import {
  groupsOfVersion,
  groupsOfVersions,
  hasJob,
  type JobGroups,
  type LiveAllocation,
  liveOnNode,
} from "../../cluster/reports/view.ts";
import type { StoredVolume } from "../../contracts/host-volumes.ts";
import type { VolumeGroup } from "../../contracts/volume-requests.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { volumeIdOf } from "../../volume-requests/volume-requests.ts";
import { holdersOf, outlivesJob } from "../host-claims/view.ts";
import { namesOf } from "./update-rules.ts";

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
  readonly groups: readonly VolumeGroup[] | null;
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
    const versions =
      version === null
        ? groupsOfVersions(this.sql, this.namespace, jobId)
        : [groupsOfVersion(this.sql, this.namespace, jobId, version)].filter((found) => found !== null);
    return {
      isReported: hasJob(this.sql, this.namespace, jobId),
      groups: versions.length === 0 ? null : versions.flatMap(groupsOf),
    };
  }
}

const groupsOf = ({ groups }: JobGroups): VolumeGroup[] => (JSON.parse(groups ?? "[]") as VolumeGroup[] | null) ?? [];

const requestsVolume = (groups: readonly VolumeGroup[], allocation: LiveAllocation, name: string): boolean =>
  groups
    .filter(({ Name }) => Name === allocation.task_group)
    .flatMap(({ Volumes }) => Object.values(Volumes ?? {}))
    .some(
      ({ Type, Source: source = "", PerAlloc: perAlloc = false }) =>
        Type === "host" && volumeIdOf({ source, perAlloc }, allocation.name ?? "") === name,
    );

/** The refusal to delete a used volume; null when it is unused. */
export const inUse = ({ id }: StoredVolume, users: readonly string[]): Refusal | null =>
  users.length === 0
    ? null
    : refuse("conflict", `could not delete volume ${id} in use by alloc ${namesOf(users).join(", ")}`);
