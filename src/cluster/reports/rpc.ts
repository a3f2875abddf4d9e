import type { JoinedPage, ReportedPage, ReportedQuery, ReportedTopic, ReportsApi } from "../../contracts/reports.ts";
import { SharedRead } from "../../platform/durable/blocking/shared-read.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import { BodyMemory } from "../../platform/limits/body-memory.ts";
import type { Ingestion } from "./ingestion.ts";
import { JobJoins } from "./job-joins.ts";
import { JOB_SUMMARY_TABLES } from "./job-shapes.ts";
import { fromStream } from "./report-stream.ts";
import type { Reported } from "./reported.ts";

/** Of reports beyond one call: the memory of an isolate holds no two of the largest. */
const turns = new BodyMemory(1);

interface ReportParts {
  readonly reportReads: ReportReads;
  readonly ingestion: Ingestion;
}

/** RPC methods of `ClusterRegistry` about reports of schedulers. */
export const reportMethods: MethodTable<ReportsApi, ReportParts> = {
  reported: ({ reportReads }, query, whole = false) => reportReads.page(query, whole),
  readReported: ({ reportReads }, ...given) => reportReads.read(...given),
  jobSummary: ({ reportReads }, namespace, id) => reportReads.summary(namespace, id),
  jobVersions: ({ reportReads }, namespace, id) => reportReads.versions(namespace, id),
  jobScale: ({ reportReads }, namespace, id) => reportReads.scale(namespace, id),
  allocations: ({ reportReads }, ids, namespace) => reportReads.allocations(ids, namespace),
  ingest: ({ ingestion }, ...given) => ingestion.apply(...given),
  ingestLines: ({ ingestion }, ...given) => ingestion.applyLines(...given),
  ingestStream: async ({ ingestion }, source, reports, mode) => {
    const turn = await turns.reserve(1);
    if (!turn.ok) {
      await reports.cancel();
      return turn;
    }
    try {
      return ingestion.apply(source, await fromStream(reports), mode);
    } finally {
      turn.value();
    }
  },
};

type Answer<Method extends keyof ReportsApi> = ReturnType<ReportsApi[Method]>;

/** Reads reported objects with what belongs to them. Equal reads of one change share one read of rows. */
export class ReportReads {
  readonly #joins: JobJoins;
  readonly #joined: SharedRead<JoinedPage>;

  constructor(
    sql: SqlStorage,
    private readonly reported: Reported,
    private readonly indexes: TableIndexes,
  ) {
    this.#joins = new JobJoins(sql);
    this.#joined = new SharedRead(sql);
  }

  page(query: ReportedQuery, whole: boolean): Answer<"reported"> {
    const page = this.#joined.of({ query, whole }, () => this.#join(this.reported.page(query), query.topic, whole));
    return { ...page, index: this.#newestOf(query.topic) };
  }

  read(topic: ReportedTopic, id: string, namespace: string, only: boolean): Answer<"readReported"> {
    const object = this.reported.find(topic, id, namespace, only);
    const { jobs } = this.#join({ rows: object ? [object] : [], next: null }, topic, true);
    return { object, index: this.indexes.of(topic), jobs };
  }

  summary(namespace: string, id: string): Answer<"jobSummary"> {
    const job = this.reported.find("Job", id, namespace, true);
    const found = job && { job, counts: this.#joins.counts(job) };
    return { found, index: this.#newestOf("Job") };
  }

  versions(namespace: string, id: string): Answer<"jobVersions"> {
    const job = this.reported.find("Job", id, namespace, true);
    const versions = job && [job.body, ...this.reported.versions.of(job)];
    return { versions, index: this.#newestOf("Job") };
  }

  scale(namespace: string, id: string): Answer<"jobScale"> {
    const job = this.reported.find("Job", id, namespace, true);
    return { found: job && { job, groups: this.#joins.scale(job) }, index: this.#newestOf("Job") };
  }

  allocations(ids: readonly string[], namespace: string | null): Answer<"allocations"> {
    const named = this.reported.named("Allocation", ids, namespace);
    return { ...named, jobs: this.#joins.types(named.objects) };
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
    return Math.max(...tables.map((table) => this.indexes.of(table)));
  }
}
