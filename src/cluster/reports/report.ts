import type { VolumeAsk } from "../../volumes/csi/asks-of-groups.ts";
import type { NodeReport } from "../nodes/report.ts";

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
