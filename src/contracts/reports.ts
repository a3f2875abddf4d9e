import type { Result } from "../lib/result.ts";
import type { NodeEventType } from "./node.ts";
import type { Indexed, Page, Written } from "./rows.ts";
import type { CsiVolumeRequest } from "./volume-requests.ts";

/** Topics of objects that an external scheduler reports; the newest state of each is stored. */
export const REPORTED_TOPICS = [
  "Job",
  "Allocation",
  "Evaluation",
  "Deployment",
  "Service",
  "NodePool",
  "Variable",
] as const;
export type ReportedTopic = (typeof REPORTED_TOPICS)[number];

/** A complete list: objects of the topic and namespace that the report omits are removed. */
export interface FullList {
  readonly topic: ReportedTopic;
  readonly namespace: string;
}

/** How the reports of a request are applied; by default all of them, in the given order. */
export interface ReportMode {
  /** The reports list this scope completely. */
  readonly full?: FullList | null;
  /** Reports that change nothing are left out: no event, no write. */
  readonly onlyChanges?: boolean;
}

/** One reported change, checked by the Worker. For nodes see `Nodes.report`. */
export type Report = ObjectReport | ({ readonly topic: "Node" } & NodeReport);

export interface ObjectReport {
  readonly topic: ReportedTopic;
  readonly type: string;
  /** Empty for objects without one. */
  readonly namespace: string;
  readonly id: string;
  readonly filterKeys: readonly string[] | null;
  /** The job it belongs to; of a job, its parent. */
  readonly jobId: string | null;
  readonly nodeId: string | null;
  /** The version of the job; of an allocation or a deployment, that of its job. Absent when it is not reported. */
  readonly jobVersion?: number;
  /** The deployment and evaluation that placed an allocation; absent for other topics. */
  readonly placedBy?: { readonly deployment: string; readonly evaluation: string };
  /** The allocation's own copy of its job as JSON text, once for each version in a request. */
  readonly job?: string;
  /** The allocation has ended. */
  readonly terminal: boolean;
  /** Its state in the job's summary; absent when it does not count. */
  readonly tally?: string;
  /** The object was deleted; `body` is its last reported state. */
  readonly deleted: boolean;
  /** The object as JSON text, never empty, without `CreateIndex` and `ModifyIndex`: this service assigns them. */
  readonly body: string;
  /** Sticky volumes requested by the allocation's own copy of its job; absent when the report has no copy. */
  readonly sticky?: readonly string[];
  /** Requested CSI volumes, like `sticky`. */
  readonly csiVolumes?: readonly CsiVolumeRequest[];
  /** Further fields of the payload as JSON text, each with a leading comma: `,"Deleted":true`. */
  readonly extra: string;
}

/** One reported change of a node, checked by the Worker. */
export interface NodeReport {
  readonly id: string;
  readonly type: NodeEventType;
  /** The node was deleted; `body` is its last state. */
  readonly deleted: boolean;
  /** The reported fields as JSON text: `GivenNode`. */
  readonly body: string;
}

export interface ReportedObject extends Pick<Kept, "namespace" | "id" | "jobId" | "jobVersion" | "body"> {
  /** Its position in the order of the list. */
  readonly token: string;
  readonly modifyIndex: number;
}

export type ReportedPage = Page<ReportedObject>;

export interface NamedObjects {
  readonly objects: readonly ReportedObject[];
  readonly looked: number;
}

/** A stored object: `body` is its JSON text without indexes. */
export interface Kept {
  readonly namespace: string;
  readonly id: string;
  readonly jobId: string | null;
  readonly nodeId: string | null;
  /** The version of the job; of an allocation, that of its job, see `ObjectReport.placedBy`. Null when unknown. */
  readonly jobVersion: number | null;
  /** The allocation has ended. */
  readonly terminal: boolean;
  readonly body: string;
}

export interface ReportedQuery {
  readonly topic: ReportedTopic;
  /** null = all. */
  readonly namespace: string | null;
  /** Objects of this job only. */
  readonly job?: string;
  /** Objects on this node only, in any namespace. */
  readonly node?: string;
  /** Id prefix. */
  readonly prefix?: string;
  /** The token of the first row; empty = from the beginning. */
  readonly from: string;
  readonly limit: number;
  readonly reverse?: boolean;
}

/** A page of reported objects with the jobs of allocations and the allocation counts of jobs, in row order. */
export interface JoinedPage extends ReportedPage {
  readonly jobs: JobTexts;
  readonly counts?: readonly JobCounts[];
}

/** The versions of a job, newest first; null without the job. */
export type JobHistory = Indexed<{ readonly versions: readonly string[] | null }>;

/** The counts of a task group's placed allocations, and its job. */
export interface ScaledJob {
  readonly job: ReportedObject;
  readonly groups: readonly GroupScale[];
}

export interface GroupScale {
  readonly group: string;
  readonly placed: number;
  readonly running: number;
  readonly healthy: number;
  readonly unhealthy: number;
}

/** JSON texts of jobs by `jobKey`. */
export type JobTexts = Readonly<Record<string, string>>;

/** Counts of one job: allocations by group and state, children, and queued allocations. */
export interface JobCounts {
  readonly groups: readonly (readonly [group: string, status: string, count: number])[];
  readonly children: readonly (readonly [status: string, count: number])[];
  /** Queued allocations by task group, from the newest evaluations; JSON text. */
  readonly queued: string | null;
}

export interface CountedJob {
  readonly job: ReportedObject;
  readonly counts: JobCounts;
}

/** The position of a report in its source. */
export interface SourceLine {
  readonly name: string;
  readonly index: number;
  /** Distinguishes lines of one index; empty when the source numbers every report. */
  readonly line: string;
}

/** One line of a stream of a source. */
export interface ReportLine {
  readonly source: SourceLine;
  readonly reports: readonly Report[];
}

export interface Ingested extends Written {
  /** False for a repeated report, and when nothing changed. */
  readonly applied: boolean;
}

/** The methods of `ClusterRegistry` about reports of schedulers. */
export interface ReportsApi {
  /** One page of reported objects with joined data, and its index. */
  reported(query: ReportedQuery, whole?: boolean): Indexed<JoinedPage>;
  /** One reported object, see `Reported.find`, and the index of its table. */
  readReported(
    topic: ReportedTopic,
    id: string,
    namespace: string,
    only: boolean,
  ): Indexed<{ readonly object: ReportedObject | null; readonly jobs: JobTexts }>;
  /** A job with the counts of its allocations, and their index; null for none. */
  jobSummary(namespace: string, id: string): Indexed<{ readonly found: CountedJob | null }>;
  /** The kept versions of a job. */
  jobVersions(namespace: string, id: string): JobHistory;
  /** A job with the scale of its groups; null for none. */
  jobScale(namespace: string, id: string): Indexed<{ readonly found: ScaledJob | null }>;
  /** Allocations by their ids, see `Reported.named`, and the types of their jobs. */
  allocations(ids: readonly string[], namespace: string | null): NamedObjects & { readonly jobs: JobTexts };
  /** Stores reports of a scheduler: see `Ingestion`. */
  ingest(source: SourceLine | null, reports: readonly Report[], mode?: ReportMode): Promise<Result<Ingested>>;
  /** Stores several lines of a stream, each as one transaction and one event line, up to the first refused one. */
  ingestLines(lines: readonly ReportLine[]): Promise<Result<Ingested>>;
  /** As `ingest`, for more reports than one call may hold. */
  ingestStream(
    source: SourceLine | null,
    reports: ReadableStream<Uint8Array>,
    mode: ReportMode,
  ): Promise<Result<Ingested>>;
}
