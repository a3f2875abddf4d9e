import type { JobCounts } from "../../contracts/reports.ts";
import { parseLossless } from "../../lib/json.ts";
import { type Fields, isSet, objectOf, textOf } from "./topics/topic.ts";

/**
 * Jobs as reads show them. Nomad's Go client dereferences optional fields without a nil check, so missing fields are
 * filled with defaults. Events keep jobs as reported.
 */

/** The tables that a job summary depends on. */
export const JOB_SUMMARY_TABLES = ["Job", "Allocation", "Evaluation"] as const;

/** Summary counter by client status. */
const COUNTED_AS: Readonly<Record<string, keyof typeof NONE>> = {
  pending: "Starting",
  running: "Running",
  complete: "Complete",
  failed: "Failed",
  lost: "Lost",
  unknown: "Unknown",
};
const NONE = { Queued: 0, Complete: 0, Failed: 0, Running: 0, Starting: 0, Lost: 0, Unknown: 0 };

const CHILDREN: Readonly<Record<string, "Pending" | "Running" | "Dead">> = {
  pending: "Pending",
  running: "Running",
  dead: "Dead",
};

const groupsOf = (job: Fields): readonly Fields[] => (job["TaskGroups"] as readonly Fields[] | null | undefined) ?? [];

/** The counts of a job's allocations. @param job including its indexes */
export function jobSummary(job: Fields, { groups, children, queued }: JobCounts): Fields {
  const summary: Record<string, Record<string, number>> = {};
  const of = (group: string) => {
    summary[group] ??= { ...NONE };
    return summary[group];
  };
  for (const group of groupsOf(job)) of(textOf(group, "Name"));
  for (const [group, status, count] of groups) {
    const field = COUNTED_AS[status];
    if (field) of(group)[field] = (of(group)[field] ?? 0) + count;
  }
  for (const [group, count] of Object.entries(queued === null ? {} : (JSON.parse(queued) as Fields))) {
    if (typeof count === "number") of(group)["Queued"] = count;
  }
  const offspring = { Pending: 0, Running: 0, Dead: 0 };
  for (const [status, count] of children) {
    const field = CHILDREN[status];
    if (field) offspring[field] += count;
  }
  const isParent = isSet(job, "Periodic") || isSet(job, "ParameterizedJob") || children.length > 0;
  return {
    JobID: job["ID"],
    Namespace: job["Namespace"],
    Summary: summary,
    Children: isParent ? offspring : null,
    CreateIndex: job["CreateIndex"],
    ModifyIndex: job["ModifyIndex"],
  };
}

const PLAIN_JOB = {
  ...{ Region: "global", Namespace: "default", ParentID: "", Type: "service", Priority: 50, NodePool: "default" },
  ...{ AllAtOnce: false, Dispatched: false, Stable: false, Stop: false, Status: "", StatusDescription: "" },
  ...{ Version: 0, SubmitTime: 0, JobModifyIndex: 0 },
};
/** Fields that Nomad writes as null when unset. */
const ABSENT = {
  ...{ Affinities: null, Constraints: null, Datacenters: null, Meta: null, Multiregion: null, Payload: null },
  ...{ Periodic: null, ParameterizedJob: null, Reschedule: null, Spreads: null, Update: null },
};

const PLAIN_GROUP = { Count: 1, Tasks: [], Meta: null, Volumes: null, Networks: null, Services: null };

/** Fills missing fields with defaults; present ones are unchanged. */
const completed = (given: Fields, plain: Fields): Fields => ({
  ...given,
  ...Object.fromEntries(Object.entries(plain).filter(([field]) => !Object.hasOwn(given, field))),
});

/** A job with all fields that clients read. */
export const completeJob = (job: Fields): Fields => ({
  ...completed(job, { ...PLAIN_JOB, ...ABSENT }),
  Name: job["Name"] || job["ID"],
  TaskGroups: groupsOf(job).map((group) => completed(group, PLAIN_GROUP)),
});

/** The type of an allocation's job: from the allocation, else from the job. */
const jobTypeOf = (allocation: Fields, job: Fields | null): string =>
  textOf(allocation, "JobType") || textOf(job ?? {}, "Type") || PLAIN_JOB.Type;

export const withJobType = (allocation: Fields, job: Fields | null): Fields => ({
  ...allocation,
  JobType: jobTypeOf(allocation, job),
});

/**
 * An allocation with its job: the newest reported one, labelled with the allocation's version, else derived from the
 * allocation.
 */
export function withJob(allocation: Fields, job: Fields | null): Fields {
  const name = textOf(allocation, "TaskGroup");
  const known = job ?? { ID: textOf(allocation, "JobID"), Namespace: allocation["Namespace"] };
  const groups = groupsOf(known);
  const has = groups.some((group) => textOf(group, "Name") === name);
  return {
    ...withJobType(allocation, job),
    Job: completeJob({
      ...known,
      Type: jobTypeOf(allocation, job),
      Version: allocation["JobVersion"] ?? known["Version"] ?? 0,
      TaskGroups: has ? groups : [...groups, { Name: name, Tasks: tasksOf(allocation) }],
    }),
  };
}

const tasksOf = (allocation: Fields): Fields[] =>
  Object.keys(objectOf(allocation, "TaskStates") ?? {}).map((Name) => ({ Name, Driver: "" }));

/** Parses a job's text from `JobJoins`. */
export const jobIn = (text: string | undefined): Fields | null =>
  text === undefined ? null : (parseLossless(text) as Fields);
