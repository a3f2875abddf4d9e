import type { ReportedObject } from "../../contracts/reports.ts";

/** A version that becomes an earlier one. */
interface ReplacedVersion {
  readonly namespace: string;
  readonly id: string;
  readonly job_version: number | null;
  readonly body: string;
  readonly create_index: number | null;
  readonly modify_index: number | null;
}

interface JobVersionRow extends Record<string, SqlStorageValue> {
  body: string;
  create_index: number | null;
  modify_index: number | null;
}

/** Versions kept of a job, beside the newest one. */
const MAX_VERSIONS = 100;
/** Upper bound of the versions in one answer. */
const MAX_BYTES = 16 * 1024 * 1024;

/**
 * Owns table `job_versions`: versions of reported jobs that newer ones replaced, and those that only the copies of
 * allocations contain. Written in the transactions of reports. Read by `job/:id/versions` and by reads of allocations;
 * each query is a walk along one index.
 */
export class JobVersions {
  constructor(private readonly sql: SqlStorage) {}

  /** Keeps a version that a newer one replaces. */
  replaced({ namespace, id, job_version, body, create_index, modify_index }: ReplacedVersion): void {
    if (job_version === null) return;
    this.sql.exec(
      `INSERT INTO job_versions (namespace, job_id, version, gone, body, create_index, modify_index)
       VALUES (?, ?, ?, 0, ?, ?, ?)
       ON CONFLICT (namespace, job_id, version, gone) DO UPDATE SET body = excluded.body,
         create_index = excluded.create_index, modify_index = excluded.modify_index`,
      namespace,
      id,
      job_version,
      body,
      create_index,
      modify_index,
    );
    this.sql.exec(
      `DELETE FROM job_versions WHERE namespace = ?1 AND job_id = ?2 AND gone = 0 AND version < (
         SELECT version FROM job_versions WHERE namespace = ?1 AND job_id = ?2 AND gone = 0
         ORDER BY version DESC LIMIT 1 OFFSET ${MAX_VERSIONS})`,
      namespace,
      id,
    );
  }

  /** Keeps an allocation's copy of its job, unless that version is known. */
  learned(namespace: string, id: string, version: number, body: string): void {
    this.sql.exec(
      `INSERT INTO job_versions (namespace, job_id, version, gone, body, create_index, modify_index)
       SELECT ?1, ?2, ?3, 0, ?4, job.create_index, job.create_index
       FROM (SELECT 1) LEFT JOIN reported AS job ON topic = 'Job' AND namespace = ?1 AND id = ?2
       WHERE job_version IS NOT ?3
       ON CONFLICT (namespace, job_id, version, gone) DO NOTHING`,
      namespace,
      id,
      version,
      body,
    );
  }

  /** The job was deleted. Its versions stay while it has allocations. */
  deleted(newest: ReplacedVersion): void {
    const { namespace, id } = newest;
    const isNeeded = this.#hasAllocations(namespace, id);
    if (isNeeded) this.replaced(newest);
    if (!isNeeded) {
      this.sql.exec("DELETE FROM job_versions WHERE namespace = ? AND job_id = ?", namespace, id);
      return;
    }
    // Versions of an earlier job of this id make room first: a snapshot does not see rows replaced by conflict.
    this.sql.exec(
      `DELETE FROM job_versions WHERE namespace = ?1 AND job_id = ?2 AND gone = 1 AND version IN (
         SELECT version FROM job_versions WHERE namespace = ?1 AND job_id = ?2 AND gone = 0)`,
      namespace,
      id,
    );
    this.sql.exec("UPDATE job_versions SET gone = 1 WHERE namespace = ? AND job_id = ? AND gone = 0", namespace, id);
  }

  /** An allocation was deleted: the versions of a deleted job go with its last one. */
  allocationDeleted(namespace: string, id: string): void {
    if (this.#hasAllocations(namespace, id)) return;
    this.sql.exec("DELETE FROM job_versions WHERE namespace = ? AND job_id = ? AND gone = 1", namespace, id);
  }

  /** Deletes the versions of a deleted namespace. */
  forget(namespace: string): void {
    this.sql.exec("DELETE FROM job_versions WHERE namespace = ?", namespace);
  }

  /** Gives a version the index that its job was waiting for. */
  setIndex(namespace: string, id: string, index: number): void {
    this.sql.exec(
      `UPDATE job_versions SET create_index = ifnull(create_index, ?1), modify_index = ifnull(modify_index, ?1)
       WHERE namespace = ?2 AND job_id = ?3 AND modify_index IS NULL`,
      index,
      namespace,
      id,
    );
  }

  /** The texts of a job's versions beside the newest one, newest first. */
  of({ namespace, id, jobVersion }: Pick<ReportedObject, "namespace" | "id" | "jobVersion">): string[] {
    const texts: string[] = [];
    let bytes = 0;
    const rows = this.sql.exec<JobVersionRow>(
      `SELECT body, create_index, modify_index FROM job_versions
       WHERE namespace = ? AND job_id = ? AND gone = 0 AND version IS NOT ? ORDER BY version DESC`,
      namespace,
      id,
      jobVersion,
    );
    for (const { body, create_index, modify_index } of rows) {
      bytes += Buffer.byteLength(body);
      if (bytes > MAX_BYTES) break;
      const created = create_index ?? 0;
      texts.push(`${body.slice(0, -1)},"CreateIndex":${created},"ModifyIndex":${modify_index ?? created}}`);
    }
    return texts;
  }

  #hasAllocations(namespace: string, id: string): boolean {
    return (
      this.sql
        .exec(
          "SELECT 1 FROM reported WHERE topic = 'Allocation' AND namespace = ? AND job_id = ? LIMIT 1",
          namespace,
          id,
        )
        .toArray().length > 0
    );
  }
}
