import * as z from "zod";
import { cloudASm } from "../cloud-a-sm/adapter.ts";
import { fromDescription } from "../description.ts";
import type { StoredDestinationType } from "../destination-type.ts";
import { description } from "./description.ts";

/** A destination for trials: its objects are stored in the destination itself and readable through the API. */
export const inMem: StoredDestinationType<Record<string, never>> = {
  kind: "stored",
  ...fromDescription(description),
  connection: z.object({}),
  targets: () => [],
  // The rules of the most common remote type, so that a trial behaves like production.
  defaults: cloudASm.defaults,
  naming: cloudASm.naming,
  maxValueBytes: cloudASm.maxValueBytes,
  // The destination's own storage needs no rate limit.
  pace: { atOnce: 6, burst: 1_000_000, perMinute: 60_000_000 },
};
