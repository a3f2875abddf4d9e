import { NOTHING, type Told } from "../../cluster/node/told.ts";
import type { ObjectReport } from "../../cluster/report.ts";
import type { Kept } from "../../cluster/reported.ts";
import type { CsiUser } from "./volume.ts";

interface JobBody {
  readonly Version?: number | null;
  readonly TaskGroups?: readonly TaskGroup[] | null;
}
interface TaskGroup {
  readonly Name?: string;
  readonly Volumes?: Readonly<Record<string, VolumeRequest>> | null;
}
interface VolumeRequest {
  readonly Type?: string;
  readonly Source?: string;
  readonly ReadOnly?: boolean;
  readonly PerAlloc?: boolean;
}

interface UserRow extends Record<string, SqlStorageValue> {
  id: string;
  node_id: string | null;
  name: string | null;
  read_only: number;
}

const MOST_USERS = 1_000;

/**
 * Who uses a CSI volume: allocations that have not ended, of groups whose job, in their version, asks for the volume. What a job
 * asked for in older versions is kept as long as the job is: allocations of those may still run.
 */
export class CsiUsers {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Notes what a job asks for, inside the transaction that takes it in. */
  jobChanged(after: Kept | null, { namespace, id }: ObjectReport): Told {
    if (!after) {
      this.#sql.exec("DELETE FROM csi_job_volumes WHERE namespace = ? AND job_id = ?", namespace, id);
      return NOTHING;
    }
    const { Version, TaskGroups } = JSON.parse(after.body) as JobBody;
    for (const { Name = "", Volumes } of TaskGroups ?? []) {
      for (const { Type, Source = "", ReadOnly = false, PerAlloc = false } of Object.values(Volumes ?? {})) {
        if (Type !== "csi" || Source === "") continue;
        this.#sql.exec(
          `INSERT INTO csi_job_volumes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
           ON CONFLICT DO UPDATE SET read_only = min(read_only, excluded.read_only),
             first_version = min(first_version, excluded.first_version),
             last_version = max(last_version, excluded.last_version)`,
          ...[namespace, Source, PerAlloc ? 1 : 0, id, Name, ReadOnly ? 1 : 0, Version ?? 0],
        );
      }
    }
    return NOTHING;
  }

  /** @param ended also of allocations that have ended */
  usersOf(namespace: string, volumeId: string, ended = false): CsiUser[] {
    const [, source = "", index = ""] = /^(.*)(\[\d+\])$/s.exec(volumeId) ?? [];
    const users = this.#askers(namespace, volumeId, false, ended);
    if (index !== "") {
      const each = this.#askers(namespace, source, true, ended);
      users.push(...each.filter(({ name }) => (name ?? "").endsWith(index)));
    }
    return users.map(({ id, node_id, read_only }) => ({
      allocId: id,
      nodeId: node_id ?? "",
      readOnly: read_only === 1,
    }));
  }

  #askers(namespace: string, source: string, perAlloc: boolean, ended: boolean): UserRow[] {
    return this.#sql
      .exec<UserRow>(
        `SELECT reported.id, node_id, json_extract(body, '$.Name') AS name, min(read_only) AS read_only
         FROM csi_job_volumes AS asked CROSS JOIN reported ON topic = 'Allocation' AND reported.namespace = asked.namespace
           AND reported.job_id = asked.job_id ${ended ? "" : "AND terminal = 0"}
         WHERE asked.namespace = ? AND source = ? AND per_alloc = ? AND json_extract(body, '$.TaskGroup') = task_group
           AND ifnull(json_extract(body, '$.JobVersion'), last_version) BETWEEN first_version AND last_version
         GROUP BY reported.id ORDER BY reported.id LIMIT ?`,
        ...[namespace, source, perAlloc ? 1 : 0, MOST_USERS],
      )
      .toArray();
  }
}
