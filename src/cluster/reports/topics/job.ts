import { flag, indexes, integer, keyed, list, mapOf, name, oneOf, open, text, textMap, texts } from "./fields.ts";
import { type Topic, textOf } from "./topic.ts";

/** A task group's volume request, which determines claims. */
const VolumeRequest = open({
  Name: name,
  Type: oneOf("host", "csi"),
  Source: name,
  AccessMode: text,
  AttachmentMode: text,
  ReadOnly: flag,
  Sticky: flag,
  PerAlloc: flag,
});

export const TaskGroup = open({
  Name: name,
  Count: integer,
  Meta: textMap,
  Tasks: list(open({ Name: name, Driver: text })),
  Volumes: mapOf(VolumeRequest),
});

export const Job: Topic = {
  object: keyed("ID", {
    ...indexes,
    Name: text,
    Namespace: name,
    ParentID: name,
    Region: text,
    NodePool: name,
    Type: oneOf("service", "batch", "system", "sysbatch"),
    Status: oneOf("pending", "running", "dead"),
    StatusDescription: text,
    Priority: integer,
    Version: integer,
    SubmitTime: integer,
    JobModifyIndex: integer,
    AllAtOnce: flag,
    Dispatched: flag,
    Stable: flag,
    Stop: flag,
    Datacenters: texts,
    Meta: textMap,
    Payload: text.nullish(),
    Periodic: open({ Enabled: flag, Spec: text, SpecType: text, TimeZone: text, ProhibitOverlap: flag }).nullish(),
    ParameterizedJob: open({ MetaOptional: texts, MetaRequired: texts, Payload: text }).nullish(),
    TaskGroups: list(TaskGroup),
  }),
  key: "ID",
  namespaced: true,
  removal: "JobDeregistered",
  filterKeys: () => null,
  jobVersion: ({ Version }) => Version,
  tally: (object) => (textOf(object, "ParentID") === "" ? undefined : textOf(object, "Status")),
};
