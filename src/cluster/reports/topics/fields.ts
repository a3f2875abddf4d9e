import * as z from "zod";
import { isPlainObject } from "../../../lib/json.ts";

/*
 * Fields of reported objects. What a field is called and holds is checked, what is not known is kept: objects are open.
 */

/** What is stored as a key, or compared with one. */
export const MAX_NAME_BYTES = 256;

export const text = z.string();

/** An id or a name that refers to something. May be empty: that is how upstream says "none". */
export const name = z
  .string()
  .refine((value) => Buffer.byteLength(value) <= MAX_NAME_BYTES, `must be at most ${MAX_NAME_BYTES} bytes`)
  .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), "must not hold control characters");

/** What an object goes by. */
export const id = name.min(1, "must not be empty");

const MOST = 2n ** 63n;

/** 64 bits, signed; one that a number cannot hold has been kept as it was written. */
export const integer = z
  .custom<unknown>((value) => {
    if (typeof value === "number") return Number.isInteger(value) && value >= -Number(MOST) && value < Number(MOST);
    const written = writtenNumber(value);
    if (written === null || !/^-?\d{1,20}$/.test(written)) return false;
    const whole = BigInt(written);
    return whole >= -MOST && whole < MOST;
  }, "must be an integer of 64 bits")
  .meta({ type: "integer" });

const writtenNumber = (value: unknown): string | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isPlainObject(value)
    ? JSON.stringify(value)
    : null;

export const flag = z.boolean();
/** Something in the past or to come, as text; null = never. */
export const time = z.string().nullish();
export const list = <T extends z.ZodType>(of: T) => z.array(of).nullish();
export const names = list(name);
export const texts = list(text);
/** Keys are data. */
export const mapOf = <T extends z.ZodType>(of: T) => z.record(z.string(), of).nullish();
export const textMap = mapOf(text);
export const open = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape).partial();
/** An object that goes by one of its fields. */
export const keyed = <Shape extends z.ZodRawShape>(key: "ID" | "Name", shape: Shape) =>
  open(shape).extend({ [key]: id });
/** Where an object stands in its scheduler and here; the latter is replaced. */
export const indexes = { CreateIndex: integer, ModifyIndex: integer };
/** When it was made and changed there, in nanoseconds since 1970. */
export const times = { CreateTime: integer, ModifyTime: integer };
export const oneOf = <const Words extends readonly [string, ...string[]]>(...words: Words) =>
  z.enum(words, `must be one of ${words.join(", ")}`);
