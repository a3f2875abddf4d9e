import type { GroupScale, JobCounts, JobTexts, ReportedObject, ReportedPage } from "../../contracts/reports.ts";

/** The key of an allocation's job in its version; empty without a job. */
export const jobKey = ({ namespace, jobId, jobVersion }: Belonging): string =>
  jobId === null ? "" : `${namespace}\n${jobId}\n${jobVersion ?? ""}`;

type Belonging = Pick<ReportedObject, "namespace" | "jobId" | "jobVersion">;

/** The grouping key of summary counts: task group and state, separated by a line feed, which names do not contain. */
export const tallyOf = (group: string, status: string): string => `${group}\n${status}`;

const MAX_JOB_BYTES = 4 * 1024 * 1024;
/** A new evaluation has no queue counts yet, so earlier ones are read as well. */
const EVALUATIONS_READ = 3;

/** A job's text with its indexes. */
const WITH_INDEXES = `substr(body, 1, length(body) - 1) || ',"CreateIndex":' || ifnull(create_index, 0) ||
  ',"ModifyIndex":' || ifnull(modify_index, ifnull(create_index, 0)) || '}'`;

/** Joins of jobs and allocations for reads. Each query is a walk along one index. */
export class JobJoins {
  constructor(private readonly sql: SqlStorage) {}

  counts({ namespace, id }: Pick<ReportedObject, "namespace" | "id">): JobCounts {
    return {
      groups: this.#tallies("Allocation", namespace, id).map(({ tally, count }) => {
        const [group = "", status = ""] = tally.split("\n");
        return [group, status, count] as const;
      }),
      children: this.#tallies("Job", namespace, id).map(({ tally, count }) => [tally, count] as const),
      queued: this.#queued(namespace, id),
    };
  }

  /** The scale of a job's groups: its allocations that neither have ended nor are to stop, without canaries. */
  scale({ namespace, id }: Pick<ReportedObject, "namespace" | "id">): readonly GroupScale[] {
    return this.sql
      .exec<Record<keyof GroupScale, SqlStorageValue>>(
        `SELECT ifnull(json_extract(body, '$.TaskGroup'), '') AS "group", count(*) AS placed,
           sum(ifnull(json_extract(body, '$.ClientStatus'), '') = 'running') AS running,
           sum(ifnull(json_extract(body, '$.DeploymentStatus.Healthy'), 0)) AS healthy,
           sum(ifnull(json_extract(body, '$.DeploymentStatus.Healthy'), 1) = 0) AS unhealthy
         FROM reported WHERE topic = 'Allocation' AND namespace = ? AND job_id = ? AND terminal = 0
           AND ifnull(json_extract(body, '$.DesiredStatus'), '') NOT IN ('stop', 'evict')
           AND NOT ifnull(json_extract(body, '$.DeploymentStatus.Canary'), 0) GROUP BY 1`,
        namespace,
        id,
      )
      .toArray()
      .map(({ group, ...counts }) => ({ group: String(group), ...(counts as Omit<GroupScale, "group">) }));
  }

  /** The job types of allocations. */
  types(allocations: readonly ReportedObject[]): JobTexts {
    return this.#texts(allocations, "json_object('Type', json_extract(body, '$.Type'))").jobs;
  }

  /** A page with the jobs of its allocations; shorter when jobs are large. */
  withJobs(page: ReportedPage): ReportedPage & { readonly jobs: JobTexts } {
    const { jobs, fit } = this.#texts(page.rows, WITH_INDEXES);
    if (fit === page.rows.length) return { ...page, jobs };
    return { rows: page.rows.slice(0, fit), next: page.rows[fit]?.token ?? null, jobs };
  }

  /** @returns also how many allocations fit, at least one */
  #texts(allocations: readonly ReportedObject[], column: string): { readonly jobs: JobTexts; readonly fit: number } {
    const jobs = new Map<string, string>();
    const seen = new Set<string>();
    let bytes = 0;
    for (const [at, allocation] of allocations.entries()) {
      const key = jobKey(allocation);
      if (key === "" || seen.has(key)) continue;
      seen.add(key);
      const text = this.#text(allocation, column);
      if (text === null) continue;
      bytes += text.length;
      if (at > 0 && bytes > MAX_JOB_BYTES) return { jobs: Object.fromEntries(jobs), fit: at };
      jobs.set(key, text);
    }
    return { jobs: Object.fromEntries(jobs), fit: allocations.length };
  }

  /** An allocation's job: in its version, else in the newest one. */
  #text({ namespace, jobId, jobVersion }: ReportedObject, column: string): string | null {
    const [newest] = this.sql
      .exec<{ text: string; job_version: number | null }>(
        `SELECT ${column} AS text, job_version FROM reported WHERE topic = 'Job' AND namespace = ? AND id = ?`,
        namespace,
        jobId,
      )
      .toArray();
    if (newest && (jobVersion === null || newest.job_version === jobVersion)) return newest.text;
    const [earlier] = this.sql
      .exec<{ text: string }>(
        `SELECT ${column} AS text FROM job_versions WHERE namespace = ? AND job_id = ? AND version = ?
         ORDER BY gone LIMIT 1`,
        namespace,
        jobId,
        jobVersion,
      )
      .toArray();
    return earlier?.text ?? newest?.text ?? null;
  }

  #tallies(topic: "Allocation" | "Job", namespace: string, job: string) {
    return this.sql
      .exec<{ tally: string; count: number }>(
        `SELECT tally, count(*) AS count FROM reported
         WHERE topic = ? AND namespace = ? AND job_id = ? AND tally IS NOT NULL GROUP BY tally`,
        topic,
        namespace,
        job,
      )
      .toArray();
  }

  #queued(namespace: string, job: string): string | null {
    const rows = this.sql.exec<{ queued: string | null }>(
      `SELECT json_extract(body, '$.QueuedAllocations') AS queued FROM reported
       WHERE topic = 'Evaluation' AND namespace = ? AND job_id = ? ORDER BY row DESC LIMIT ?`,
      namespace,
      job,
      EVALUATIONS_READ,
    );
    return rows.toArray().find(({ queued }) => queued !== null)?.queued ?? null;
  }
}
