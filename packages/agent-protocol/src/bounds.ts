import * as z from "zod";

/** One frame, as UTF-8. The platform takes more; neither side has a reason to send more. */
export const MAX_FRAME_BYTES = 1024 * 1024;

/** Operations an agent works on at a time, queued behind one another of the same key or not. */
export const MAX_IN_FLIGHT = 32;

/** Operations whose outcome an agent keeps for the service; the oldest outcomes go first. */
export const MAX_KEPT_OPERATIONS = 1_000;

/** Volumes on one node: all of them fit one `hello`. */
export const MAX_VOLUMES = 2_000;

/** Everything a peer sends is bounded, since it is stored and shown. */
export const text = (most: number, least = 0) => z.string().min(least).max(most);

/** A count of bytes, of megabytes, of milliseconds. */
export const amount = z.int().nonnegative();

/** A map of at most `most` entries, each key up to 256 characters. */
export const mapOf = <V extends z.ZodType>(value: V, most: number) =>
  z.record(text(256, 1), value).refine((map) => Object.keys(map).length <= most, `has more than ${most} entries`);

/** Ids are compared as text, so there is one way to write them: lower case. */
export const uuid = z.uuid().refine((id) => id === id.toLowerCase(), "is not in lower case");
