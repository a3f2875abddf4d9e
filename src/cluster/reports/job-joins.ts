import type { JobCounts, JobTexts, ReportedObject, ReportedPage } from "../../contracts/reports.ts";

export const jobKey = (namespace: string, jobId: string): string => `${namespace}\n${jobId}`;

/** The grouping key of summary counts: task group and state, separated by a line feed, which names do not contain. */
export const tallyOf = (group: string, status: string): string => `${group}\n${status}`;

const MAX_JOB_BYTES = 4 * 1024 * 1024;
/** A new evaluation has no queue counts yet, so earlier ones are read as well. */
const EVALUATIONS_READ = 3;

/** Joins of jobs and allocations for reads. Each query is a walk along one index. */
export class JobJoins {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

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

  /** The job types of allocations. */
  types(allocations: readonly ReportedObject[]): JobTexts {
    return this.#texts(allocations, "json_object('Type', json_extract(body, '$.Type'))").jobs;
  }

  /** A page with the jobs of its allocations; shorter when jobs are large. */
  withJobs(page: ReportedPage): ReportedPage & { readonly jobs: JobTexts } {
    const { jobs, fit } = this.#texts(page.rows, "body");
    if (fit === page.rows.length) return { ...page, jobs };
    return { rows: page.rows.slice(0, fit), next: page.rows[fit]?.token ?? null, jobs };
  }

  /** @returns also how many allocations fit, at least one */
  #texts(allocations: readonly ReportedObject[], column: string): { readonly jobs: JobTexts; readonly fit: number } {
    const jobs = new Map<string, string>();
    const seen = new Set<string>();
    let bytes = 0;
    for (const [at, { namespace, jobId }] of allocations.entries()) {
      const key = jobKey(namespace, jobId ?? "");
      if (jobId === null || seen.has(key)) continue;
      seen.add(key);
      const [row] = this.#sql
        .exec<{ text: string }>(
          `SELECT ${column} AS text FROM reported WHERE topic = 'Job' AND namespace = ? AND id = ?`,
          namespace,
          jobId,
        )
        .toArray();
      if (!row) continue;
      bytes += row.text.length;
      if (at > 0 && bytes > MAX_JOB_BYTES) return { jobs: Object.fromEntries(jobs), fit: at };
      jobs.set(key, row.text);
    }
    return { jobs: Object.fromEntries(jobs), fit: allocations.length };
  }

  #tallies(topic: "Allocation" | "Job", namespace: string, job: string) {
    return this.#sql
      .exec<{ tally: string; count: number }>(
        `SELECT tally, count(*) AS count FROM reported
         WHERE topic = ? AND namespace = ? AND job_id = ? AND tally IS NOT NULL GROUP BY tally`,
        ...[topic, namespace, job],
      )
      .toArray();
  }

  #queued(namespace: string, job: string): string | null {
    const rows = this.#sql.exec<{ queued: string | null }>(
      `SELECT json_extract(body, '$.QueuedAllocations') AS queued FROM reported
       WHERE topic = 'Evaluation' AND namespace = ? AND job_id = ? ORDER BY row DESC LIMIT ?`,
      ...[namespace, job, EVALUATIONS_READ],
    );
    return rows.toArray().find(({ queued }) => queued !== null)?.queued ?? null;
  }
}
