import * as z from "zod";
import { isPlainObject } from "../../../lib/json.ts";

/** Field schemas of reported objects. Known fields are validated, unknown fields are kept. */

/** Upper bound for stored and compared keys. */
const MAX_NAME_BYTES = 256;

export const text = z.string();

/** A reference to an id or name; empty means none, as in Nomad. */
export const name = z
  .string()
  .refine((value) => Buffer.byteLength(value) <= MAX_NAME_BYTES, `must be at most ${MAX_NAME_BYTES} bytes`)
  .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), "must not hold control characters");

/** The key of an object. */
const id = name.min(1, "must not be empty");

const INT64_LIMIT = 2n ** 63n;

/** A signed 64-bit integer; beyond 2^53 it is kept as written. */
export const integer = z
  .custom<unknown>((value) => {
    if (typeof value === "number")
      return Number.isInteger(value) && value >= -Number(INT64_LIMIT) && value < Number(INT64_LIMIT);
    const written = writtenNumber(value);
    if (written === null || !/^-?\d{1,20}$/.test(written)) return false;
    const whole = BigInt(written);
    return whole >= -INT64_LIMIT && whole < INT64_LIMIT;
  }, "must be an integer of 64 bits")
  .meta({ type: "integer" });

const writtenNumber = (value: unknown): string | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isPlainObject(value)
    ? JSON.stringify(value)
    : null;

export const flag = z.boolean();
/** A timestamp as text; null = never. */
export const time = z.string().nullish();
export const list = <T extends z.ZodType>(of: T) => z.array(of).nullish();
export const names = list(name);
export const texts = list(text);
/** Keys are data, not field names. */
export const mapOf = <T extends z.ZodType>(of: T) => z.record(z.string(), of).nullish();
export const textMap = mapOf(text);
export const open = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape).partial();
/** An object with one of its fields as key. */
export const keyed = <Shape extends z.ZodRawShape>(key: "ID" | "Name" | "Path", shape: Shape) =>
  open(shape).extend({ [key]: id });
/** Indexes of the scheduler; they are replaced by this service's. */
export const indexes = { CreateIndex: integer, ModifyIndex: integer };
/** Times of the scheduler, in nanoseconds since 1970. */
export const times = { CreateTime: integer, ModifyTime: integer };
export const oneOf = <const Words extends readonly [string, ...string[]]>(...words: Words) =>
  z.enum(words, `must be one of ${words.join(", ")}`);
