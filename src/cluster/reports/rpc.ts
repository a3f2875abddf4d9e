import type {
  CountedJob,
  JobHistory,
  JobTexts,
  JoinedPage,
  NamedObjects,
  ReportedObject,
  ReportedPage,
  ReportedQuery,
  ReportedTopic,
  ReportMode,
  ReportsApi,
  ScaledJob,
  SourceLine,
} from "../../contracts/reports.ts";
import { SharedRead } from "../../platform/durable/blocking/shared-read.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { Ingestion } from "./ingestion.ts";
import { JobJoins } from "./job-joins.ts";
import { JOB_SUMMARY_TABLES } from "./job-shapes.ts";
import { fromStream } from "./report-stream.ts";
import type { Reported } from "./reported.ts";

/** RPC methods of `ClusterRegistry` about reports of schedulers. Equal reads of one change share one read of rows. */
export class ReportMethods implements ReportsApi {
  readonly #reported: Reported;
  readonly #ingestion: Ingestion;
  readonly #indexes: TableIndexes;
  readonly #joins: JobJoins;
  readonly #joined: SharedRead<JoinedPage>;

  constructor(sql: SqlStorage, reported: Reported, ingestion: Ingestion, indexes: TableIndexes) {
    this.#reported = reported;
    this.#ingestion = ingestion;
    this.#indexes = indexes;
    this.#joins = new JobJoins(sql);
    this.#joined = new SharedRead(sql);
  }

  reported(query: ReportedQuery, whole = false): JoinedPage & { readonly index: number } {
    const page = this.#joined.of({ query, whole }, () => this.#join(this.#reported.page(query), query.topic, whole));
    return { ...page, index: this.#newestOf(query.topic) };
  }

  readReported(
    topic: ReportedTopic,
    id: string,
    namespace: string,
    only: boolean,
  ): { readonly object: ReportedObject | null; readonly index: number; readonly jobs: JobTexts } {
    const object = this.#reported.find(topic, id, namespace, only);
    const { jobs } = this.#join({ rows: object ? [object] : [], next: null }, topic, true);
    return { object, index: this.#indexes.of(topic), jobs };
  }

  jobSummary(namespace: string, id: string): { readonly found: CountedJob | null; readonly index: number } {
    const job = this.#reported.find("Job", id, namespace, true);
    const found = job && { job, counts: this.#joins.counts(job) };
    return { found, index: this.#newestOf("Job") };
  }

  jobVersions(namespace: string, id: string): JobHistory {
    const job = this.#reported.find("Job", id, namespace, true);
    const versions = job && [job.body, ...this.#reported.versions.of(job)];
    return { versions, index: this.#newestOf("Job") };
  }

  jobScale(namespace: string, id: string): { readonly found: ScaledJob | null; readonly index: number } {
    const job = this.#reported.find("Job", id, namespace, true);
    return { found: job && { job, groups: this.#joins.scale(job) }, index: this.#newestOf("Job") };
  }

  allocations(ids: readonly string[], namespace: string | null): NamedObjects & { readonly jobs: JobTexts } {
    const named = this.#reported.named("Allocation", ids, namespace);
    return { ...named, jobs: this.#joins.types(named.objects) };
  }

  ingest(...parameters: Parameters<Ingestion["apply"]>): ReturnType<Ingestion["apply"]> {
    return this.#ingestion.apply(...parameters);
  }

  ingestLines(...parameters: Parameters<Ingestion["applyLines"]>): ReturnType<Ingestion["applyLines"]> {
    return this.#ingestion.applyLines(...parameters);
  }

  async ingestStream(
    source: SourceLine | null,
    reports: ReadableStream<Uint8Array>,
    mode: ReportMode,
  ): ReturnType<Ingestion["apply"]> {
    return this.#ingestion.apply(source, await fromStream(reports), mode);
  }

  #join(page: ReportedPage, topic: ReportedTopic, whole: boolean): JoinedPage {
    if (topic === "Allocation") {
      return whole ? this.#joins.withJobs(page) : { ...page, jobs: this.#joins.types(page.rows) };
    }
    if (topic === "Job") return { ...page, jobs: {}, counts: page.rows.map((job) => this.#joins.counts(job)) };
    return { ...page, jobs: {} };
  }

  /** A list of jobs includes the state of their allocations, so it changes with them. */
  #newestOf(topic: ReportedTopic): number {
    const tables = topic === "Job" ? JOB_SUMMARY_TABLES : [topic];
    return Math.max(...tables.map((table) => this.#indexes.of(table)));
  }
}
