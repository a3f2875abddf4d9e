import * as z from "zod";
import { parseFlag } from "../../lib/go-bool.ts";

/*
 * Field types of request bodies. Command-line clients send every value as a string ("true", "5", "a,b", "k=v"), so each
 * typed field also accepts its string form.
 */

/** true, false, "true", "1", …; an empty text is false. */
export const flag = () =>
  z.preprocess((value) => {
    if (typeof value === "number" && (value === 0 || value === 1)) return value === 1;
    if (typeof value !== "string") return value;
    return value === "" ? false : (parseFlag(value) ?? value);
  }, z.boolean("must be true or false"));

/** An integer, or its decimal text; an empty one is 0. @param rule the error message for other values, instead of zod's */
export function integer(rule?: string) {
  return {
    min(least: number) {
      return z.preprocess(asNumber, z.number(rule).int(rule).min(least).max(Number.MAX_SAFE_INTEGER));
    },
  };
}

function asNumber(value: unknown): unknown {
  return value === "" || (typeof value === "string" && /^[+-]?\d{1,15}$/.test(value.trim())) ? Number(value) : value;
}

/** Nanoseconds by unit. */
const UNITS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
};
const NANOSECONDS_TO_A_SECOND = 1_000_000_000n;
/** Maximum number of decimal places. */
const PLACES = 9;

/**
 * Parses `90`, `"90"`, `"1h30m"`, `"182d"`, `"-1s"` as seconds; null for other values. A fraction of a second rounds
 * away from zero, since 0 means "not set" for many fields; only an explicit zero and the empty text are 0.
 */
export function parseDuration(value: unknown): number | null {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value + 0 : null;
  if (typeof value !== "string") return null;
  if (value === "") return 0;
  const text = value.trim();
  if (/^[+-]?\d{1,15}$/.test(text)) return Number(text) + 0;
  const [, sign, rest = ""] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  const parts = [...rest.matchAll(/(\d{1,15})(?:\.(\d{1,9}))?(ns|us|µs|ms|s|m|h|d)/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== rest) return null;
  const seconds = wholeSeconds(parts);
  return sign === "-" ? 0 - seconds : seconds;
}

/** The sum of amounts by unit, rounded up. Exact: `1.1h` is 3960 s, where floating point yields slightly more. */
function wholeSeconds(parts: readonly RegExpExecArray[]): number {
  const scale = 10n ** BigInt(PLACES);
  const scaled = parts.reduce(
    (sum, [, whole = "0", fraction = "", unit = "s"]) =>
      sum + BigInt(whole + fraction.padEnd(PLACES, "0")) * (UNITS[unit] ?? 0n),
    0n,
  );
  const second = scale * NANOSECONDS_TO_A_SECOND;
  return Number((scaled + second - 1n) / second);
}

/** The longest accepted duration, in seconds: 100 years. */
export const MAX_DURATION = 100 * 365 * 86_400;

const durationSchemas = new WeakSet<z.ZodType>();

/** Whether a schema is a duration's: the test over all routes finds its fields by this. */
export const isDuration = (schema: z.ZodType): boolean => durationSchemas.has(schema);

/** Marks the schema of a field that holds a duration. */
export function asDuration<Schema extends z.ZodType>(schema: Schema): Schema {
  durationSchemas.add(schema);
  return schema;
}

/** Seconds, zero or more: an integer, its text, or a duration such as "1h30m". */
export const duration = (whenNegative = "must not be negative") =>
  asDuration(signedDuration().refine((seconds) => seconds >= 0, whenNegative));

/** Like `duration`, where a negative value has a meaning. */
export const signedDuration = () =>
  asDuration(
    z
      .unknown()
      .transform((value, context) => {
        const seconds = parseDuration(value);
        if (seconds !== null && Math.abs(seconds) <= MAX_DURATION) return seconds;
        context.addIssue({
          code: "custom",
          message: 'must be seconds or a duration such as "1h30m", at most 100 years',
        });
        return z.NEVER;
      })
      .meta({ type: ["integer", "string"] }),
  );

/**
 * Seconds, as clients of the cluster API write durations: an integer is nanoseconds, a text a duration such as "1h30m".
 * A fraction of a second rounds away from zero. @param least negative values have a meaning when it is below 0
 */
export const nanoseconds = ({ least = 0 } = {}) =>
  asDuration(
    z.union([z.string(), z.number()]).transform((given, context) => {
      const seconds = typeof given === "number" ? awayFromZero(given / 1e9) : parseDuration(given);
      if (seconds !== null && seconds >= least && seconds <= MAX_DURATION) return seconds;
      const isLess = seconds !== null && seconds < least;
      const message = isLess ? "should not be negative" : 'must be nanoseconds or a duration such as "1h30m"';
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    }),
  );

const awayFromZero = (value: number): number => (value < 0 ? 0 - Math.ceil(-value) : Math.ceil(value)) + 0;

const echoedSchemas = new WeakSet<z.core.$ZodType>();

/** Whether a field is accepted only because clients send it back. */
export const isEchoed = (schema: z.core.$ZodType): boolean => echoedSchemas.has(schema);

/** Fields that answers contain and clients send back. The service owns them: they have no effect in a body. */
export function echoed<Name extends string>(...names: Name[]): Record<Name, z.ZodOptional<z.ZodUnknown>> {
  const fields = names.map((name) => {
    const schema = z.unknown().optional();
    echoedSchemas.add(schema);
    return [name, schema] as const;
  });
  return Object.fromEntries(fields) as Record<Name, z.ZodOptional<z.ZodUnknown>>;
}

/** A list of strings, or one comma-separated string. */
export const stringList = () =>
  z.preprocess(
    (value) =>
      typeof value === "string"
        ? value
            .split(",")
            .map((item) => item.trim())
            .filter((item) => item !== "")
        : value,
    z.array(z.string("must be a text"), {
      error: ({ input }) => (input === undefined ? "is required" : "must be a list of texts"),
    }),
  );

/** A map of strings; also `"k=v,k2=v2"`, a list of `"k=v"`, or the map as JSON text. */
export const stringMap = () =>
  mapOf(z.record(z.string(), z.preprocess(asText, z.string("must be a text")), "must be a map of texts"));

/** A map, also in its string forms. The parser would drop the key `__proto__` without a word, so it is refused. */
export const mapOf = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess((given, context) => {
    const map = asMap(given);
    if (typeof map === "object" && map !== null && Object.hasOwn(map, "__proto__")) {
      context.addIssue({ code: "custom", message: 'must have no key "__proto__"' });
    }
    return map;
  }, schema);

/** Numbers and booleans in such maps become their text. */
const asText = (value: unknown): unknown =>
  typeof value === "number" || typeof value === "boolean" ? String(value) : value;

/** Converts the string forms of a map to a map; leaves other values unchanged. */
export function asMap(value: unknown): unknown {
  if (typeof value === "string") {
    if (value.trim().startsWith("{")) {
      try {
        return JSON.parse(value);
      } catch {
        return value;
      }
    }
    return asMap(value.split(",").filter((pair) => pair.trim() !== ""));
  }
  if (!Array.isArray(value)) return value;
  const pairs = value.map((pair) => /^([^=]+)=(.*)$/s.exec(String(pair).trim()));
  return pairs.every((pair) => pair !== null)
    ? Object.fromEntries(pairs.map(([, key = "", text = ""]) => [key, text]))
    : value;
}

/** An enumeration in which an empty text means null, for the default. */
export const choiceOrDefault = <const Word extends string>(rule: string, ...words: Word[]) =>
  z.preprocess((given) => (given === "" ? null : given), z.enum(words, rule).nullish());

/** The fields of an object schema, also of one with a transform. */
export function fieldsOf(schema: z.core.$ZodType): string[] {
  const { shape, in: input, out } = schema._zod.def as { shape?: object; in?: z.core.$ZodType; out?: z.core.$ZodType };
  if (shape) return Object.keys(shape);
  return [input, out].flatMap((part) => (part ? fieldsOf(part) : []));
}

const caselessSchemas = new WeakSet<z.core.$ZodType>();

/** Whether a schema matches field names case-insensitively. */
export const isCaseless = (schema: z.core.$ZodType): boolean => caselessSchemas.has(schema);

/** An object whose keys match case-insensitively, as cluster clients spell them. */
export function caseless<Schema extends z.ZodType>(schema: Schema) {
  const spelling = new Map(fieldsOf(schema).map((key) => [key.toLowerCase(), key]));
  const caseless = z.preprocess((value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [spelling.get(key.toLowerCase()) ?? key, item]),
    );
  }, schema);
  caselessSchemas.add(caseless);
  return caseless;
}
