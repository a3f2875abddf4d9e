import { flag, indexes, integer, keyed, open, text, textMap } from "./fields.ts";
import type { Topic } from "./topic.ts";

export const NodePool: Topic = {
  object: keyed("Name", {
    ...indexes,
    Description: text,
    Hash: text.nullish(),
    Meta: textMap,
    NodeIdentityTTL: integer,
    SchedulerConfiguration: open({
      SchedulerAlgorithm: text,
      MemoryOversubscriptionEnabled: flag.nullable(),
    }).nullish(),
  }),
  key: "Name",
  namespaced: false,
  removal: "NodePoolDeleted",
  filterKeys: () => null,
  goneBy: "NodePoolDeleted",
};
