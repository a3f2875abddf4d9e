import * as z from "zod";
import { parseFlag } from "../../lib/go-bool.ts";

/* Types of query parameters. Each has a value without the parameter, or is optional. */

export const text = () => z.string().default("");

/** `?name` and `?name=true` set it. */
export const flag = () =>
  z
    .preprocess(
      (given) => (typeof given === "string" ? given === "" || (parseFlag(given) ?? given) : given),
      z.boolean("must be true or false"),
    )
    .default(false);

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
