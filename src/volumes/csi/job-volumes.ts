import type { VolumeGroup } from "../../contracts/volume-requests.ts";
import { csiRequestsOf } from "../../volume-requests/volume-requests.ts";
import type { CsiSecrets } from "./secrets.ts";

interface JobBody {
  readonly Version?: number | null;
  readonly TaskGroups?: readonly VolumeGroup[] | null;
}

/** A group's request for a volume, with the range of job versions that contain it. */
export interface JobVolumeRequest {
  readonly source: string;
  readonly perAlloc: boolean;
  readonly taskGroup: string;
  readonly readOnly: boolean;
  readonly accessMode: string;
  readonly attachmentMode: string;
  /** Sealed mount options; null = those of the volume. */
  readonly mount: ArrayBuffer | null;
  readonly firstVersion: number;
  readonly lastVersion: number;
}

interface JobVolumeRow extends Record<string, SqlStorageValue> {
  source: string;
  per_alloc: number;
  task_group: string;
  read_only: number;
  access_mode: string;
  attachment_mode: string;
  mount: ArrayBuffer | null;
  first_version: number;
  last_version: number;
}

/**
 * Owns table `csi_job_volumes`: the CSI volumes that jobs request. Requests of older job versions are kept until the
 * job is purged, because allocations of those versions may still run or be reported later. Read by the claim intake.
 */
export class JobVolumes {
  readonly #sql: SqlStorage;
  readonly #secrets: CsiSecrets;

  constructor(sql: SqlStorage, secrets: CsiSecrets) {
    this.#sql = sql;
    this.#secrets = secrets;
  }

  of(namespace: string, jobId: string): JobVolumeRequest[] {
    return this.#rows(namespace, jobId).map((row) => ({
      source: row.source,
      perAlloc: row.per_alloc === 1,
      taskGroup: row.task_group,
      readOnly: row.read_only === 1,
      accessMode: row.access_mode,
      attachmentMode: row.attachment_mode,
      mount: row.mount,
      firstVersion: row.first_version,
      lastVersion: row.last_version,
    }));
  }

  forget(namespace: string, jobId: string): void {
    this.#sql.exec("DELETE FROM csi_job_volumes WHERE namespace = ? AND job_id = ?", namespace, jobId);
  }

  /** @returns whether the job requests a volume it did not request before */
  record(namespace: string, jobId: string, body: string): boolean {
    const { Version, TaskGroups } = JSON.parse(body) as JobBody;
    const version = Version ?? 0;
    const known = this.#rows(namespace, jobId);
    let isNew = false;
    for (const group of TaskGroups ?? []) {
      for (const request of csiRequestsOf(group)) {
        const taskGroup = group.Name ?? "";
        isNew ||= !known.some(
          (row) =>
            row.source === request.source &&
            row.per_alloc === Number(request.perAlloc) &&
            row.task_group === taskGroup &&
            row.first_version <= version &&
            row.last_version >= version,
        );
        this.#sql.exec(
          `INSERT INTO csi_job_volumes (namespace, source, per_alloc, job_id, task_group, read_only, access_mode,
             attachment_mode, mount, first_version, last_version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
           ON CONFLICT DO UPDATE SET read_only = min(read_only, excluded.read_only), access_mode = excluded.access_mode,
             attachment_mode = excluded.attachment_mode, mount = excluded.mount,
             first_version = min(first_version, excluded.first_version),
             last_version = max(last_version, excluded.last_version)`,
          namespace,
          request.source,
          request.perAlloc ? 1 : 0,
          jobId,
          taskGroup,
          request.readOnly ? 1 : 0,
          request.accessMode,
          request.attachmentMode,
          request.mount && this.#secrets.sealForClaim(request.mount),
          version,
        );
      }
    }
    return isNew;
  }

  #rows(namespace: string, jobId: string): JobVolumeRow[] {
    return this.#sql
      .exec<JobVolumeRow>("SELECT * FROM csi_job_volumes WHERE namespace = ? AND job_id = ?", namespace, jobId)
      .toArray();
  }
}
