import * as z from "zod";
import { cloudASm } from "./cloud-a-sm.ts";
import type { StoredDestinationType } from "./destination-type.ts";

/** A destination to try things out with: objects are kept in the destination's own storage, readable through the API. */
export const inMem: StoredDestinationType<Record<string, never>> = {
  kind: "stored",
  type: "in-mem",
  connection: z.object({}),
  sensitive: [],
  targets: () => [],
  immutable: [],
  // The rules of the commonest real type, so that a trial shows what production would do.
  defaults: cloudASm.defaults,
  naming: cloudASm.naming,
  maxValueBytes: cloudASm.maxValueBytes,
  // Our own storage has no limits worth keeping.
  pace: { atOnce: 6, burst: 1_000_000, perMinute: 60_000_000 },
};
