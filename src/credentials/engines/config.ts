import * as z from "zod";
import { duration, flag } from "../../platform/http/fields.ts";

/** Parts that the configurations of the types of engines share. */

/** The stored form of a body: each field has a value. */
export type Stored<Body> = { readonly [Field in keyof Body]-?: Exclude<Body[Field], undefined> };

/** A text, which clients may send as a number. */
export const textOrNumber = () =>
  z.preprocess((value) => (typeof value === "number" ? String(value) : value), z.string().max(4_096));

/** The schedule of rotations in a body. */
export const scheduleFields = <Text extends z.ZodType<string>>(text: () => Text) => ({
  rotation_schedule: text().optional(),
  rotation_window: duration().optional(),
  rotation_period: duration().optional(),
  rotation_policy: text().optional(),
  disable_automated_rotation: flag().optional(),
});

/** The time of the next rotation in a view. @param due ms since 1970, null without a schedule */
export const nextRotationDate = (due: number | null) =>
  due === null ? {} : { next_rotation_date: new Date(due).toISOString() };
