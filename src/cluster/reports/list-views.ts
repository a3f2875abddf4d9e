import { isParameterized, PLAIN_JOB } from "./job-shapes.ts";
import { type Fields, isSet } from "./topics/topic.ts";

/**
 * List views of reported objects, with Nomad's fields. Times and versions that are not reported are null: their zero
 * would be a value.
 */

const or = (object: Fields, field: string, none: unknown): unknown => object[field] ?? none;
const texts = (object: Fields, ...fields: string[]) =>
  Object.fromEntries(fields.map((field) => [field, or(object, field, "")]));
const numbers = (object: Fields, ...fields: string[]) =>
  Object.fromEntries(fields.map((field) => [field, or(object, field, 0)]));
const nullable = (object: Fields, ...fields: string[]) =>
  Object.fromEntries(fields.map((field) => [field, or(object, field, null)]));

/**
 * @param summary the job's counts
 * @param meta whether the job's metadata was requested
 */
export const jobStub = (job: Fields, summary: Fields, meta: boolean): Fields => ({
  ...texts(job, "ID", "ParentID", "Namespace", "NodePool", "Type", "Status", "StatusDescription"),
  Name: job["Name"] || job["ID"],
  Priority: or(job, "Priority", PLAIN_JOB.Priority),
  ...nullable(job, "Datacenters", "Multiregion", "SubmitTime"),
  ...numbers(job, "Version", "CreateIndex", "ModifyIndex", "JobModifyIndex"),
  Periodic: isSet(job, "Periodic"),
  ParameterizedJob: isParameterized(job),
  Stop: or(job, "Stop", false),
  JobSummary: summary,
  ...(meta && nullable(job, "Meta")),
});

const NO_TRANSITION = {
  ForceReschedule: null,
  Migrate: null,
  MigrateDisablePlacement: null,
  NoShutdownDelay: null,
  Reschedule: null,
};

/** Optional fields of an allocation's list view (docs/internals/wire/volumes.md). */
export interface AllocationFields {
  readonly resources: boolean;
  readonly taskStates: boolean;
}

export const allocationStub = (allocation: Fields, { resources, taskStates }: AllocationFields): Fields => ({
  ...texts(allocation, "ID", "EvalID", "Name", "Namespace", "NodeID", "NodeName", "JobID", "JobType", "TaskGroup"),
  ...texts(allocation, "DesiredStatus", "DesiredDescription", "ClientStatus", "ClientDescription"),
  ...texts(allocation, "FollowupEvalID", "NextAllocation", "PreemptedByAllocation"),
  ...numbers(allocation, "CreateIndex", "ModifyIndex"),
  ...nullable(
    allocation,
    "JobVersion",
    "CreateTime",
    "ModifyTime",
    "DeploymentStatus",
    "PreemptedAllocations",
    "RescheduleTracker",
  ),
  DesiredTransition: or(allocation, "DesiredTransition", NO_TRANSITION),
  ...(resources && nullable(allocation, "AllocatedResources")),
  ...(taskStates ? nullable(allocation, "TaskStates") : { TaskStates: null }),
});

/** The view of an evaluation beside one that it is linked with. */
export const evaluationStub = (evaluation: Fields): Fields => ({
  ...texts(evaluation, "ID", "Namespace", "Type", "TriggeredBy", "JobID", "NodeID", "DeploymentID"),
  ...texts(evaluation, "Status", "StatusDescription", "NextEval", "PreviousEval", "BlockedEval"),
  ...numbers(evaluation, "Priority", "CreateIndex", "ModifyIndex"),
  ...nullable(evaluation, "CreateTime", "ModifyTime", "WaitUntil"),
});
