import { expect, it } from "vitest";
import { parseLossless } from "../../../lib/json.ts";
import { integer } from "./fields.ts";

const isTaken = (written: string) => integer.safeParse(parseLossless(written)).success;

it.each(["0", "-1", "9007199254740993", "1793606400000000000", "1793606400123456789", "9223372036854775807"])(
  "%s is a 64-bit integer, beyond 2^53 too",
  (written) => expect(isTaken(written)).toBe(true),
);

it.each(["1.5", "9223372036854775808", "-9223372036854775809", "1e30", '"1"', "{}", "[1]", "null"])(
  "%s is not a 64-bit integer",
  (written) => expect(isTaken(written)).toBe(false),
);
