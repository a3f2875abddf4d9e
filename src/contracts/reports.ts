import type { NodeEventType } from "./node.ts";
import type { VolumeAsk } from "./volume-asks.ts";

/** Topics of objects that a scheduler outside reports, and whose newest state is kept here. */
export const REPORTED_TOPICS = ["Job", "Allocation", "Evaluation", "Deployment", "Service", "NodePool"] as const;
export type ReportedTopic = (typeof REPORTED_TOPICS)[number];

/** What a report lists completely: objects of a topic in a namespace that it leaves out are gone. */
export interface FullList {
  readonly topic: ReportedTopic;
  readonly namespace: string;
}

/** One reported change, read and checked by the Worker. Nodes have a life of their own here, see `Nodes.report`. */
export type Report = ObjectReport | ({ readonly topic: "Node" } & NodeReport);

export interface ObjectReport {
  readonly topic: ReportedTopic;
  readonly type: string;
  /** Empty for objects without one. */
  readonly namespace: string;
  readonly id: string;
  readonly filterKeys: readonly string[] | null;
  /** The job that it belongs to; of a job the one that it was made from. */
  readonly jobId: string | null;
  readonly nodeId: string | null;
  /** An allocation that will not run any more. */
  readonly terminal: boolean;
  /** What it counts as in its job's summary; absent when it does not count. */
  readonly tally?: string;
  /** The object is gone; `body` is how it was last, as far as the reporter says. */
  readonly deleted: boolean;
  /** The object as JSON text: never empty, without `CreateIndex` and `ModifyIndex`, which are this service's own. */
  readonly body: string;
  /** The sticky volumes that an allocation's own copy of its job asks for; absent when the report has none. */
  readonly sticky?: readonly string[];
  /** The CSI volumes that it asks for, as `sticky`. */
  readonly csiVolumes?: readonly VolumeAsk[];
  /** Further fields of the payload as JSON text, each with a leading comma: `,"Deleted":true`. */
  readonly extra: string;
}

/** One reported change of a node, as the Worker has read and checked it. */
export interface NodeReport {
  readonly id: string;
  readonly type: NodeEventType;
  /** The node is gone; `body` is how it was last. */
  readonly deleted: boolean;
  /** What is told of the node, as JSON text: `GivenNode`. */
  readonly body: string;
}

export interface ReportedObject {
  readonly namespace: string;
  readonly id: string;
  readonly jobId: string | null;
  readonly body: string;
  /** Where it stands in the order of its list. */
  readonly token: string;
  readonly modifyIndex: number;
}

export interface ReportedPage {
  readonly rows: readonly ReportedObject[];
  /** The token of the row that follows. */
  readonly next: string | null;
}

export interface NamedObjects {
  readonly objects: readonly ReportedObject[];
  readonly looked: number;
}

/** An object as it is stored: `body` is its JSON text without indexes. */
export interface Kept {
  readonly namespace: string;
  readonly id: string;
  readonly jobId: string | null;
  readonly nodeId: string | null;
  /** An allocation that will not run any more. */
  readonly terminal: boolean;
  readonly body: string;
}

export interface ReportedQuery {
  readonly topic: ReportedTopic;
  /** null = all of them. */
  readonly namespace: string | null;
  /** Only what belongs to this job of the namespace. */
  readonly job?: string;
  /** Only what is on this node, in whatever namespace. */
  readonly node?: string;
  /** Only ids that begin with this. */
  readonly prefix?: string;
  /** The token of the first row wanted; empty = from the beginning. */
  readonly from: string;
  readonly limit: number;
  readonly reverse?: boolean;
}

/** A page of reported objects, the jobs of allocations, and what allocations of jobs are doing, in the order of the rows. */
export interface JoinedPage extends ReportedPage {
  readonly jobs: JobTexts;
  readonly counts?: readonly JobCounts[];
}

/** JSON texts of jobs by `jobKey`. */
export type JobTexts = Readonly<Record<string, string>>;

/** How many allocations of each group are in each state, how many children, and what waits for room: of one job. */
export interface JobCounts {
  readonly groups: readonly (readonly [group: string, status: string, count: number])[];
  readonly children: readonly (readonly [status: string, count: number])[];
  /** By task group, as the newest evaluations say it; JSON text. */
  readonly queued: string | null;
}

export interface CountedJob {
  readonly job: ReportedObject;
  readonly counts: JobCounts;
}

/** Which of a source's reports this is. */
export interface SourceLine {
  readonly name: string;
  readonly index: number;
  /** Tells lines of one index apart; empty when a source gives every report an index of its own. */
  readonly line: string;
}

export interface Ingested {
  /** The line's index; null when the stream could not take it yet, which it will. */
  readonly index: number | null;
  /** False when the source had told this before. */
  readonly applied: boolean;
}
