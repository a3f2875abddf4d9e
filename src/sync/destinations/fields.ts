import * as z from "zod";
import { memo } from "../../lib/memo.ts";

/** Fields of create bodies that several types have. Numbers count as texts; an empty text clears an optional field. */

const given = (message: string) =>
  z
    .union([z.string(), z.number()], message)
    .transform(String)
    .transform((text) => text.trim());

/** A required text that obeys `rule`. */
export const requiredText = (rule: RegExp, message: string) =>
  given(message).refine((text) => rule.test(text), message);

/** An optional text: absent, empty, or one that obeys `rule`. @param whenNoText the refusal of other types */
export const optionalText = (rule: RegExp, message: string, whenNoText = message) =>
  given(whenNoText)
    .refine((text) => text === "" || rule.test(text), message)
    .optional();

/** An access token as providers issue them. */
export const accessToken = () =>
  requiredText(/^[\x21-\x7e]{1,4096}$/, "must be 1 to 4096 printable characters without spaces");

/** One of the words, or empty. */
export const choice = <const Word extends string>(...words: Word[]) =>
  z.enum(["", ...words], `must be ${words.join(" or ")}`).optional();

/** Different words, as a list or separated by commas. @param rule the refusal of other types */
export const wordList = (rule: string) =>
  z
    .union([z.array(z.string()), z.string().transform((text) => text.split(","))], rule)
    .transform((list) => [...new Set(list.map((word) => word.trim()).filter((word) => word !== ""))]);

/** The fields of an application of Microsoft Entra. */
export const applicationFields = () => ({
  tenant_id: optionalText(
    /^[\dA-Za-z](?:[\dA-Za-z.-]{0,251}[\dA-Za-z])?$/,
    "must be a tenant's id or domain name: letters, digits, dots and hyphens",
  ),
  client_id: optionalText(/^[\x21-\x7e]{1,256}$/, "must be printable characters without spaces, at most 256"),
  client_secret: optionalText(/^[\x20-\x7e]{1,1024}$/, "must be printable characters, at most 1024"),
});

/** Refuses a field, with the reason. */
export type Refuse = (field: string, message: string) => void;

/** The schema of a type's connection, made at its first use: the set fields. @param check the rules between fields */
export const connectionSchema = <Shape extends z.ZodRawShape>(
  shape: () => Shape,
  check?: (given: z.output<z.ZodObject<Shape>>, refuse: Refuse) => void,
) =>
  memo(() =>
    z
      .object(shape())
      .superRefine((given, context) =>
        check?.(given, (field, message) => context.addIssue({ code: "custom", path: [field], message })),
      )
      .transform(withoutUnset),
  );

type SetFields<Fields> = { [Field in keyof Fields]: Exclude<Fields[Field], "" | null | undefined> };

/** The set fields: reads leave out unset and cleared ones. Each field that may be unset is optional. */
export const withoutUnset = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => isSet(value))) as SetFields<Fields>;

const isSet = (value: unknown): boolean =>
  value != null && value !== "" && !(typeof value === "object" && Object.keys(value).length === 0);
