import * as z from "zod";
import { parseFlag, parseGoBool } from "../../lib/go-bool.ts";

/* Types of query parameters. Each has a value without the parameter, or is optional. */

export const text = () => z.string().default("");

/** A parameter that must be there. @param rule the answer without it */
export const required = (rule: string) => z.string(rule).min(1, rule);

/** `?name` and `?name=true` set it. */
export const flag = () =>
  z
    .preprocess(
      (given) => (typeof given === "string" ? given === "" || (parseFlag(given) ?? given) : given),
      z.boolean("must be true or false"),
    )
    .default(false);

/**
 * A flag in Go's words. Without it, `usual`.
 * @param bare its value as `?name=`
 */
export const goFlag = (rule = "must be true or false", { bare = false, usual = false } = {}) =>
  z
    .preprocess(
      (given) => (given === "" ? bare : typeof given === "string" ? (parseGoBool(given) ?? given) : given),
      z.boolean(rule),
    )
    .default(usual);

/** A flag that only the word `true` sets; every other value is as none. */
export const trueOnly = () => z.preprocess((given) => given === "true", z.boolean()).default(false);

const repeatable = new WeakSet<object>();

/** All values of a repeatable parameter, in order. */
export const repeated = () => every(z.array(z.string()));

/** The values of a repeatable parameter, as a schema of lists reads them. */
export function every<Schema extends z.ZodType>(list: Schema): z.ZodOptional<Schema> {
  const field = list.optional();
  repeatable.add(field);
  return field;
}

/** Whether a field has all values of its parameter, not the first. */
export const isRepeatable = (field: object): boolean => repeatable.has(field);

/** A number of 0 or more; 0 without it. */
export const count = () => whole("must be a number, 0 or more", 0, Number.MAX_SAFE_INTEGER, 15).default(0);

/** The size of a page. */
export const limit = (most: number, rule = `must be 1 to ${most}`) => whole(rule, 1, most, 9);

function whole(rule: string, least: number, most: number, digits: number) {
  const decimal = new RegExp(`^\\d{${least === 0 ? 0 : 1},${digits}}$`);
  return z.preprocess(
    (given) => (typeof given === "string" && decimal.test(given) ? Number(given) : given),
    z.number(rule).int(rule).min(least, rule).max(most, rule),
  );
}
