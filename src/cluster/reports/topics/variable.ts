import * as z from "zod";
import { indexes, keyed, name, open, text, times } from "./fields.ts";
import type { Topic } from "./topic.ts";

/** A variable without its values, since Nomad 2.0: they stay at the scheduler. */
export const Variable: Topic = {
  object: keyed("Path", {
    ...indexes,
    ...times,
    Namespace: name,
    Lock: open({ ID: text, TTL: text, LockDelay: text }).nullish(),
    Items: z.undefined("must not be reported: values stay at the scheduler"),
  }),
  key: "Path",
  member: "Metadata",
  namespaced: true,
  removal: "VariableUpdated",
  alwaysDeleted: true,
  filterKeys: () => null,
};
