import { FROM_LIVE_OF_JOB } from "../../cluster/reports/view.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";

/** A running allocation's request for a sticky volume that has no claim yet. */
export interface ClaimRequest {
  readonly namespace: string;
  readonly allocId: string;
  readonly nodeId: string;
  readonly jobId: string;
  readonly taskGroup: string;
}

const COLUMNS = "namespace, alloc_id AS allocId, node_id AS nodeId, job_id AS jobId, task_group AS taskGroup";

/** Placeholder for the volume name while the job that defines it is unknown. */
const UNKNOWN = "";
const ANY_VERSION = -1;

/**
 * Owns table `claim_asks`: the pending requests of allocations, and marks of those that outlive their job, which
 * `VolumeUsage` reads. Read by `VolumeClaims`; each call is one or two indexed statements.
 */
export class PendingRequests {
  constructor(private readonly sql: SqlStorage) {}

  /** Records a request for a volume that does not exist yet. */
  forVolume(request: ClaimRequest, volumeName: string): void {
    this.#insert(request, volumeName, ANY_VERSION);
  }

  /** Records a request that depends on a job, in the given version if any, that has not been reported yet. */
  forJob(request: ClaimRequest, version: number | null): void {
    this.#insert(request, UNKNOWN, version ?? ANY_VERSION);
  }

  /** Whether any allocation waits for the job. */
  hasForJob(namespace: string, jobId: string): boolean {
    const sql = "SELECT 1 FROM claim_asks WHERE namespace = ? AND job_id = ? AND volume_name = ? LIMIT 1";
    return this.sql.exec(sql, namespace, jobId, UNKNOWN).toArray().length > 0;
  }

  /** Removes the requests that wait for this version of a job. @returns those of the given groups */
  takeForJob(namespace: string, jobId: string, version: number | null, groups: readonly string[]): ClaimRequest[] {
    const which = `namespace = ? AND job_id = ? AND volume_name = ? ${version === null ? "" : "AND job_version IN (-1, ?)"}`;
    const values = [namespace, jobId, UNKNOWN, ...(version === null ? [] : [version])];
    const requests = groups.flatMap((group) => this.#requests(`${which} AND task_group = ?`, ...values, group));
    this.sql.exec(`DELETE FROM claim_asks WHERE ${which}`, ...values);
    return requests;
  }

  /** Removes and returns the requests that wait for a volume, in order of arrival. */
  takeForVolume(nodeId: string, namespace: string, name: string): ClaimRequest[] {
    const which = "node_id = ? AND namespace = ? AND volume_name = ?";
    const requests = this.#requests(which, nodeId, namespace, name);
    if (requests.length > 0) this.sql.exec(`DELETE FROM claim_asks WHERE ${which}`, nodeId, namespace, name);
    return requests;
  }

  forgetAllocation(namespace: string, allocId: string): void {
    this.sql.exec("DELETE FROM claim_asks WHERE namespace = ? AND alloc_id = ?", namespace, allocId);
  }

  /** Forgets the requests of a deleted job, and marks its live allocations by a row without a job. */
  forgetJob(namespace: string, jobId: string): void {
    this.sql.exec("DELETE FROM claim_asks WHERE namespace = ? AND job_id = ?", namespace, jobId);
    this.sql.exec(
      `INSERT OR IGNORE INTO claim_asks (namespace, alloc_id, node_id, job_id, job_version, task_group, volume_name)
       SELECT namespace, id, '', '', -1, '', '' ${FROM_LIVE_OF_JOB}`,
      namespace,
      jobId,
    );
  }

  #requests(condition: string, ...values: readonly (string | number)[]): ClaimRequest[] {
    const query = `SELECT ${COLUMNS} FROM claim_asks WHERE ${condition} ORDER BY row`;
    return this.sql.exec<RowOf<ClaimRequest>>(query, ...values).toArray();
  }

  #insert({ namespace, allocId, nodeId, jobId, taskGroup }: ClaimRequest, volumeName: string, version: number): void {
    this.sql.exec(
      `INSERT INTO claim_asks (namespace, alloc_id, node_id, job_id, job_version, task_group, volume_name)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      namespace,
      allocId,
      nodeId,
      jobId,
      version,
      taskGroup,
      volumeName,
    );
  }
}
