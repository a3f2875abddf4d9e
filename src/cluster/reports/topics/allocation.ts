import type { VolumeGroup } from "../../../contracts/volume-requests.ts";
import { csiRequestsOf, stickyVolumes } from "../../../volume-requests/volume-requests.ts";
import { tallyOf } from "../job-joins.ts";
import { flag, indexes, integer, keyed, list, mapOf, name, names, oneOf, open, text, time, times } from "./fields.ts";
import { TaskGroup } from "./job.ts";
import { type Fields, objectOf, type Topic, textOf } from "./topic.ts";

const TaskState = open({
  State: text,
  Failed: flag,
  Paused: text,
  Restarts: integer,
  StartedAt: time,
  FinishedAt: time,
  LastRestart: time,
  Events: list(open({ Type: text, Time: integer, DisplayMessage: text, Message: text })),
});

/** Nomad's description of an allocation that ran too long. */
const TIMEOUT = "allocation exceeded max_run_duration";

/** Terminal client states. */
const ENDED: ReadonlySet<string> = new Set(["complete", "failed", "lost"]);

export const Allocation: Topic = {
  object: keyed("ID", {
    ...indexes,
    ...times,
    Namespace: name,
    Name: text,
    JobID: name,
    JobVersion: integer,
    JobType: text,
    TaskGroup: name,
    NodeID: name,
    NodeName: text,
    EvalID: name,
    FollowupEvalID: name,
    DeploymentID: name,
    PreviousAllocation: name,
    NextAllocation: name,
    PreemptedByAllocation: name,
    PreemptedAllocations: names,
    AllocModifyIndex: integer,
    ClientStatus: oneOf("pending", "running", "complete", "failed", "lost", "unknown"),
    ClientDescription: text,
    DesiredStatus: oneOf("run", "stop", "evict"),
    DesiredDescription: text,
    DesiredTransition: open({
      ForceReschedule: flag.nullable(),
      Migrate: flag.nullable(),
      MigrateDisablePlacement: flag.nullable(),
      NoShutdownDelay: flag.nullable(),
      Reschedule: flag.nullable(),
    }),
    DeploymentStatus: open({
      Canary: flag,
      Healthy: flag.nullable(),
      ModifyIndex: integer,
      Timestamp: time,
    }).nullish(),
    TaskStates: mapOf(TaskState),
    Job: open({ Version: integer, Type: text, TaskGroups: list(TaskGroup) }).nullish(),
  }),
  key: "ID",
  namespaced: true,
  removal: "AllocationUpdated",
  beside: { Timeout: flag, TimeoutReason: text },
  implied: ({ ClientStatus, ClientDescription }) =>
    ClientStatus === "complete" && ClientDescription === TIMEOUT ? { Timeout: true, TimeoutReason: TIMEOUT } : {},
  filterKeys: (object) => [textOf(object, "JobID"), textOf(object, "DeploymentID")],
  kept: withoutJob,
  jobVersion: (object) => object["JobVersion"] ?? objectOf(object, "Job")?.["Version"],
  job: (object) => objectOf(object, "Job"),
  placedBy: (object) => ({ deployment: textOf(object, "DeploymentID"), evaluation: textOf(object, "EvalID") }),
  nodeOf: (object) => textOf(object, "NodeID") || null,
  terminal: (object) => ENDED.has(textOf(object, "ClientStatus")),
  tally: (object) => tallyOf(textOf(object, "TaskGroup"), textOf(object, "ClientStatus")),
  sticky: (object) => {
    const groups = groupsOf(object);
    return groups ? stickyVolumes(groups, textOf(object, "TaskGroup")) : undefined;
  },
  csiVolumes: (object) => {
    const group = groupsOf(object)?.find(({ Name }) => Name === textOf(object, "TaskGroup"));
    return group && csiRequestsOf(group);
  },
};

/** The groups of the job embedded in the allocation. */
const groupsOf = (object: Fields) =>
  objectOf(object, "Job")?.["TaskGroups"] as readonly VolumeGroup[] | null | undefined;

/** Stored allocations omit the embedded job, except its version and type (docs/internals/wire/nomad.md). */
function withoutJob(object: Fields): Fields {
  const { Job: _job, ...kept } = object;
  const job = objectOf(object, "Job");
  return {
    ...(job && "Version" in job && { JobVersion: job["Version"] }),
    ...(job && "Type" in job && { JobType: job["Type"] }),
    ...kept,
  };
}
