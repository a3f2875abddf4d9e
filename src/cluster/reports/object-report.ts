import type { ObjectReport, ReportedTopic } from "../../contracts/reports.ts";
import { parseLossless } from "../../lib/json.ts";
import { TOPICS } from "./topics/index.ts";
import { type Fields, textOf } from "./topics/topic.ts";

/** A reported object as its event contains it. */
interface GivenObject {
  readonly type: string;
  readonly namespace: string;
  readonly object: Fields;
  readonly deleted: boolean;
  /** As `ObjectReport.extra`. */
  readonly extra: string;
}

export function objectReport(
  name: ReportedTopic,
  { type, namespace, object, deleted, extra }: GivenObject,
): ObjectReport {
  const topic = TOPICS[name];
  const tally = topic.tally?.(object);
  const sticky = topic.sticky?.(object);
  const csiVolumes = topic.csiVolumes?.(object);
  const jobVersion = topic.jobVersion?.(object);
  const job = topic.job?.(object);
  const placedBy = topic.placedBy?.(object);
  const kept = withoutIndexes(topic.kept?.(object) ?? object);
  return {
    topic: name,
    type,
    namespace,
    id: textOf(object, topic.key),
    filterKeys: topic.filterKeys(object),
    jobId: textOf(object, name === "Job" ? "ParentID" : "JobID") || null,
    nodeId: topic.nodeOf?.(object) ?? null,
    terminal: topic.terminal?.(object) ?? false,
    ...(tally !== undefined && { tally }),
    ...(typeof jobVersion === "number" && { jobVersion }),
    ...(placedBy && { placedBy }),
    ...(job && { job: JSON.stringify(withoutIndexes({ ...job, Namespace: namespace })) }),
    deleted,
    ...(sticky && { sticky }),
    ...(csiVolumes && { csiVolumes }),
    body: JSON.stringify(topic.namespaced ? { ...kept, Namespace: namespace } : kept),
    extra,
  };
}

const withoutIndexes = ({ CreateIndex: _create, ModifyIndex: _modify, ...object }: Fields): Fields => object;

/** The report of a stored object's removal, with its last record. */
export function removalReport(topic: ReportedTopic, namespace: string, body: string): ObjectReport {
  const object = parseLossless(body) as Fields;
  const type = TOPICS[topic].removal;
  return objectReport(topic, { type, namespace, object, deleted: true, extra: ',"Deleted":true' });
}
