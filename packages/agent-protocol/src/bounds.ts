import * as z from "zod";

/** Upper bound of a frame as UTF-8. The platform permits more; neither side needs more. */
export const MAX_FRAME_BYTES = 1024 * 1024;

/** Upper bound of an agent's queued and running operations. */
export const MAX_IN_FLIGHT = 32;

/** Upper bound of completed operations an agent keeps for the service; the oldest are dropped first. */
export const MAX_KEPT_OPERATIONS = 1_000;

/** Upper bound of volumes per node; all fit one `hello`. */
export const MAX_VOLUMES = 2_000;

/** Every value of a peer is bounded, since it is stored and shown. */
export const text = (most: number, least = 0) => z.string().min(least).max(most);

/** A count of bytes, megabytes or milliseconds. */
export const amount = z.int().nonnegative();

/** A map of at most `most` entries with keys of up to 256 characters. */
export const mapOf = <V extends z.ZodType>(value: V, most: number) =>
  z.record(text(256, 1), value).refine((map) => Object.keys(map).length <= most, `has more than ${most} entries`);

/** Ids are compared as text, hence the lower case. */
export const uuid = z.uuid().refine((id) => id === id.toLowerCase(), "is not in lower case");
