import * as z from "zod";

/** Fields of create bodies that several types have. Numbers count as texts; an empty text clears an optional field. */

const given = (message: string) =>
  z
    .union([z.string(), z.number()], message)
    .transform(String)
    .transform((text) => text.trim());

/** A required text that obeys `rule`. */
export const requiredText = (rule: RegExp, message: string) =>
  given(message).refine((text) => rule.test(text), message);

/** An optional text: absent, empty, or one that obeys `rule`. */
export const optionalText = (rule: RegExp, message: string) =>
  given(message)
    .refine((text) => text === "" || rule.test(text), message)
    .optional();

/** An access token as providers issue them. */
export const accessToken = () =>
  requiredText(/^[\x21-\x7e]{1,4096}$/, "must be 1 to 4096 printable characters without spaces");

/** One of the words, or empty. */
export const choice = <const Word extends string>(...words: Word[]) =>
  z.enum(["", ...words], `must be ${words.join(" or ")}`).optional();

/** The set fields: reads leave out unset and cleared ones. */
export const withoutUnset = (fields: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => isSet(value)));

const isSet = (value: unknown): boolean =>
  value != null && value !== "" && !(typeof value === "object" && Object.keys(value).length === 0);
