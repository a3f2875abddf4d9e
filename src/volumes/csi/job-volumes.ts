import type { CsiVolumeRequest, VolumeJob } from "../../contracts/volume-requests.ts";
import type { RowOf } from "../../platform/durable/row-of.ts";
import { csiRequestsOf } from "../../volume-requests/volume-requests.ts";
import type { CsiSecrets } from "./secrets.ts";

/** The first and the last of job versions that follow each other. */
export type VersionRange = readonly [first: number, last: number];

/** A group's request for a volume, with the range of job versions that contain it. */
export interface JobVolumeRequest extends Omit<CsiVolumeRequest, "mount"> {
  readonly taskGroup: string;
  /** Sealed mount options; null = those of the volume. */
  readonly mount: ArrayBuffer | null;
  readonly firstVersion: number;
  readonly lastVersion: number;
  /** Versions that do not contain it, in their order; some may be outside of the range, which may still grow. */
  readonly lacking: readonly VersionRange[];
}

type JobVolumeRow = RowOf<JobVolumeRequest>;

const COLUMNS = `source, per_alloc AS perAlloc, task_group AS taskGroup, read_only AS readOnly, access_mode AS accessMode,
  attachment_mode AS attachmentMode, mount, first_version AS firstVersion, last_version AS lastVersion, lacking`;

/**
 * Owns table `csi_job_volumes`: the CSI volumes that jobs request. Requests of older job versions are kept until the
 * job is purged, because allocations of those versions may still run or be reported later. Read by the claim intake.
 */
export class JobVolumes {
  constructor(
    private readonly sql: SqlStorage,
    private readonly secrets: CsiSecrets,
  ) {}

  of(namespace: string, jobId: string): JobVolumeRequest[] {
    return this.#rows(namespace, jobId).map((row) => ({
      ...row,
      perAlloc: row.perAlloc === 1,
      readOnly: row.readOnly === 1,
      lacking: lackingOf(row),
    }));
  }

  forget(namespace: string, jobId: string): void {
    this.sql.exec("DELETE FROM csi_job_volumes WHERE namespace = ? AND job_id = ?", namespace, jobId);
  }

  forgetNamespace(namespace: string): void {
    this.sql.exec("DELETE FROM csi_job_volumes WHERE namespace = ?", namespace);
  }

  /**
   * Records the requests of one version of a job.
   * @param reported null for a job without versions
   * @returns whether the version requests a volume that it did not request before
   */
  record(namespace: string, jobId: string, reported: number | null, body: string): boolean {
    const { TaskGroups } = JSON.parse(body) as VolumeJob;
    const version = reported ?? 0;
    const known = new Map(this.#rows(namespace, jobId).map((row) => [keyOf(row), row]));
    const requested = new Set<string>();
    let isNew = false;
    for (const group of TaskGroups ?? []) {
      for (const request of csiRequestsOf(group)) {
        const taskGroup = group.Name ?? "";
        const key = keyOf({ source: request.source, perAlloc: Number(request.perAlloc), taskGroup });
        const row = known.get(key);
        requested.add(key);
        // The same version may be reported again with other groups.
        const isAddedAgain =
          row !== undefined && this.#setLacking(namespace, jobId, row, without(lackingOf(row), version));
        isNew ||= isAddedAgain || !row || row.firstVersion > version || row.lastVersion < version;
        this.sql.exec(
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
          request.mount && this.secrets.sealForClaim(request.mount),
          version,
        );
      }
    }
    // A report may name a job without its groups.
    for (const [key, row] of TaskGroups ? known : [])
      if (!requested.has(key)) this.#setLacking(namespace, jobId, row, including(lackingOf(row), version));
    return isNew;
  }

  /** @returns whether it differs from the stored one */
  #setLacking(namespace: string, jobId: string, row: JobVolumeRow, ranges: readonly VersionRange[]): boolean {
    const lacking = JSON.stringify(ranges);
    if (lacking === row.lacking) return false;
    this.sql.exec(
      `UPDATE csi_job_volumes SET lacking = ?
         WHERE namespace = ? AND source = ? AND per_alloc = ? AND job_id = ? AND task_group = ?`,
      lacking,
      namespace,
      row.source,
      row.perAlloc,
      jobId,
      row.taskGroup,
    );
    return true;
  }

  #rows(namespace: string, jobId: string): JobVolumeRow[] {
    return this.sql
      .exec<JobVolumeRow>(`SELECT ${COLUMNS} FROM csi_job_volumes WHERE namespace = ? AND job_id = ?`, namespace, jobId)
      .toArray();
  }
}

const keyOf = ({ source, perAlloc, taskGroup }: Pick<JobVolumeRow, "source" | "perAlloc" | "taskGroup">): string =>
  JSON.stringify([source, perAlloc, taskGroup]);

const lackingOf = ({ lacking }: JobVolumeRow) => JSON.parse(lacking) as readonly VersionRange[];

/** Adds a version; ranges that touch become one. */
function including(ranges: readonly VersionRange[], version: number): VersionRange[] {
  const merged: [number, number][] = [];
  for (const [first, last] of [...ranges, [version, version] as const].sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

/** Removes a version; the range that contains it is split. */
const without = (ranges: readonly VersionRange[], version: number): VersionRange[] =>
  ranges.flatMap(([first, last]) => {
    const parts: readonly VersionRange[] = [
      [first, Math.min(last, version - 1)],
      [Math.max(first, version + 1), last],
    ];
    return version < first || version > last ? [[first, last]] : parts.filter(([from, to]) => from <= to);
  });
