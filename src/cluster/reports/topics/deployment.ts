import { flag, indexes, integer, keyed, mapOf, name, names, oneOf, open, text, time, times } from "./fields.ts";
import { type Topic, textOf } from "./topic.ts";

const TaskGroupState = open({
  AutoPromote: flag,
  AutoRevert: flag,
  Promoted: flag,
  DesiredCanaries: integer,
  DesiredTotal: integer,
  HealthyAllocs: integer,
  UnhealthyAllocs: integer,
  PlacedAllocs: integer,
  PlacedCanaries: names,
  ProgressDeadline: integer,
  RequireProgressBy: time,
});

export const Deployment: Topic = {
  object: keyed("ID", {
    ...indexes,
    ...times,
    Namespace: name,
    JobID: name,
    JobVersion: integer,
    JobCreateIndex: integer,
    JobModifyIndex: integer,
    JobSpecModifyIndex: integer,
    EvalPriority: integer,
    IsMultiregion: flag,
    Status: oneOf(
      "running",
      "paused",
      "failed",
      "successful",
      "cancelled",
      "pending",
      "blocked",
      "unblocking",
      "initializing",
    ),
    StatusDescription: text,
    TaskGroups: mapOf(TaskGroupState),
  }),
  key: "ID",
  namespaced: true,
  removal: "DeploymentStatusUpdate",
  filterKeys: (object) => [textOf(object, "JobID")],
  jobVersion: ({ JobVersion }) => JobVersion,
};
