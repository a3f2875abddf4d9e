import { indexes, integer, keyed, name, text, texts } from "./fields.ts";
import { type Topic, textOf } from "./topic.ts";

export const Service: Topic = {
  object: keyed("ID", {
    ...indexes,
    Namespace: name,
    ServiceName: name,
    JobID: name,
    AllocID: name,
    NodeID: name,
    Datacenter: text,
    Address: text,
    Port: integer,
    Tags: texts,
  }),
  key: "ID",
  namespaced: true,
  removal: "ServiceDeregistration",
  filterKeys: (object) => [textOf(object, "JobID"), textOf(object, "ServiceName")],
  goneBy: "ServiceDeregistration",
};
