import type { GroupScale, JobCounts } from "../../contracts/reports.ts";
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

export const groupsOf = (job: Fields): readonly Fields[] =>
  (job["TaskGroups"] as readonly Fields[] | null | undefined) ?? [];

/** Whether a job is dispatched from; the jobs dispatched from it have its parameters, too. */
export const isParameterized = (job: Fields): boolean => isSet(job, "ParameterizedJob") && job["Dispatched"] !== true;

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
  const isParent = isSet(job, "Periodic") || isParameterized(job) || children.length > 0;
  return {
    JobID: job["ID"],
    Namespace: job["Namespace"],
    Summary: summary,
    Children: isParent ? offspring : null,
    CreateIndex: job["CreateIndex"],
    ModifyIndex: job["ModifyIndex"],
  };
}

export const PLAIN_JOB = {
  Region: "global",
  Namespace: "default",
  ParentID: "",
  Type: "service",
  Priority: 50,
  NodePool: "default",
  AllAtOnce: false,
  Dispatched: false,
  Stable: false,
  Stop: false,
  Status: "",
  StatusDescription: "",
  Version: 0,
  SubmitTime: 0,
  JobModifyIndex: 0,
};
/** Fields that Nomad writes as null when unset. */
const ABSENT = {
  Affinities: null,
  Constraints: null,
  Datacenters: null,
  Meta: null,
  Multiregion: null,
  Payload: null,
  Periodic: null,
  ParameterizedJob: null,
  Reschedule: null,
  Spreads: null,
  Update: null,
};

const PLAIN_GROUP = { Count: 1, Tasks: [], Meta: null, Volumes: null, Networks: null, Services: null };
const PLAIN_PERIODIC = {
  Enabled: true,
  Spec: "",
  Specs: null,
  SpecType: "cron",
  ProhibitOverlap: false,
  TimeZone: "UTC",
};
const PLAIN_RESCHEDULE = {
  Attempts: 0,
  Interval: 0,
  Delay: 0,
  DelayFunction: "",
  MaxDelay: 0,
  Unlimited: false,
};

/** Fills missing fields, and those that are null but have a default; others are unchanged. */
export const completed = (given: Fields, plain: Fields): Fields => ({
  ...given,
  ...Object.fromEntries(Object.entries(plain).filter(([field]) => !isSet(given, field))),
});

/** An optional part of an object, with all its fields. */
const completedPart = (of: Fields, field: string, plain: Fields): Fields => {
  const part = objectOf(of, field);
  return part ? { [field]: completed(part, plain) } : {};
};

const completeGroup = (group: Fields): Fields => ({
  ...completed(group, PLAIN_GROUP),
  ...completedPart(group, "ReschedulePolicy", PLAIN_RESCHEDULE),
});

/** A job with all fields that clients read. */
export const completeJob = (job: Fields): Fields => ({
  ...completed(job, { ...PLAIN_JOB, ...ABSENT }),
  ...completedPart(job, "Periodic", PLAIN_PERIODIC),
  ...completedPart(job, "Reschedule", PLAIN_RESCHEDULE),
  Name: job["Name"] || job["ID"],
  TaskGroups: groupsOf(job).map(completeGroup),
});

/** The scale of a job's groups. Events of scaling are not reported. @param job including its indexes */
export const jobScale = (job: Fields, scales: readonly GroupScale[]): Fields => ({
  JobID: job["ID"],
  Namespace: job["Namespace"],
  JobCreateIndex: job["CreateIndex"],
  JobModifyIndex: job["ModifyIndex"],
  JobStopped: job["Stop"] ?? false,
  TaskGroups: Object.fromEntries(
    groupsOf(job).map((group) => {
      const name = textOf(group, "Name");
      const scale = scales.find((each) => each.group === name);
      return [
        name,
        {
          Desired: group["Count"] ?? PLAIN_GROUP.Count,
          Placed: scale?.placed ?? 0,
          Running: scale?.running ?? 0,
          Healthy: scale?.healthy ?? 0,
          Unhealthy: scale?.unhealthy ?? 0,
          Events: null,
        },
      ];
    }),
  ),
});
