import type { StoredVolume } from "../../contracts/host-volumes.ts";
import { type Refusal, refuse } from "../../lib/result.ts";
import { namesOf } from "./update-rules.ts";

interface Allocation extends Record<string, SqlStorageValue> {
  id: string;
  job_id: string | null;
  task_group: string | null;
  name: string | null;
  job_version: number | null;
}

interface Job extends Record<string, SqlStorageValue> {
  version: number | null;
  groups: string | null;
}

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
    return [...new Set([...this.#askers(volume), ...this.#holders(volume)])].sort();
  }

  #holders({ id }: Pick<StoredVolume, "id">): string[] {
    return this.#sql
      .exec<{ id: string }>(
        `SELECT reported.id FROM volume_claims CROSS JOIN reported
           ON topic = 'Allocation' AND reported.namespace = volume_claims.namespace AND reported.id = alloc_id
         WHERE volume_id = ? AND terminal = 0`,
        id,
      )
      .toArray()
      .map((allocation) => allocation.id);
  }

  #askers({ nodeId, namespace, name }: Pick<StoredVolume, "nodeId" | "namespace" | "name">): string[] {
    const jobs = new Map<string, Job | null>();
    return this.#sql
      .exec<Allocation>(
        `SELECT id, job_id, json_extract(body, '$.TaskGroup') AS task_group, json_extract(body, '$.Name') AS name,
           json_extract(body, '$.JobVersion') AS job_version
         FROM reported INDEXED BY reported_live
         WHERE topic = 'Allocation' AND terminal = 0 AND node_id = ? AND namespace = ?`,
        nodeId,
        namespace,
      )
      .toArray()
      .filter((allocation) => {
        const jobId = allocation.job_id ?? "";
        if (!jobs.has(jobId)) jobs.set(jobId, this.#job(namespace, jobId));
        const job = jobs.get(jobId);
        return job ? mayUse(allocation, job, name) : this.#outlivesJob(namespace, allocation.id);
      })
      .map(({ id }) => id);
  }

  /** Whether an allocation outlives its deleted job, so that the names of its volumes are not known any more. */
  #outlivesJob(namespace: string, id: string): boolean {
    const mark = "SELECT 1 FROM claim_asks WHERE namespace = ? AND alloc_id = ? AND job_id = ''";
    return this.#sql.exec(mark, namespace, id).toArray().length > 0;
  }

  #job(namespace: string, id: string): Job | null {
    const [job] = this.#sql
      .exec<Job>(
        `SELECT json_extract(body, '$.Version') AS version, json_extract(body, '$.TaskGroups') AS groups
         FROM reported WHERE topic = 'Job' AND namespace = ? AND id = ?`,
        namespace,
        id,
      )
      .toArray();
    return job ?? null;
  }
}

/** An allocation of an unknown job version may request any volume. */
function mayUse(allocation: Allocation, job: Job, name: string): boolean {
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
