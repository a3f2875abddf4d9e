import type { ContentRule, Granularity } from "../../contracts/sync-tasks.ts";

import { matchesPathGlob } from "../rules/path-glob.ts";
import { renderValue } from "./value-template.ts";

/**
 * Values of external objects, made from a secret's JSON text. Pure. Read by tasks and previews. Costs one parse and one
 * serialisation of the secret.
 */

/** Deeper data is refused, because parsing and serialising recurse. */
const maxDepth = 512;

type Refused = { ok: false; message: string };

/** A number as it was written: parsing it to a double would lose digits (2^53 and beyond) and spelling (1.0, 1e400). */
interface NumberText {
  readonly rawJSON: string;
}

/** JSON source text access (ECMAScript 2026), in V8 since 11.4; not in TypeScript's library yet. */
const json = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): NumberText;
  isRawJSON(value: unknown): value is NumberText;
};

/**
 * The value of one external object for a whole secret: its data as compact JSON, keys sorted at every level as Go
 * sorts them (by UTF-8 bytes), numbers verbatim, no HTML escaping.
 *
 * `data` is the JSON text of the secret's data map. Refused, with one sentence that quotes nothing of it, when it
 * is not a JSON object or nests deeper than 512 levels.
 */
export function secretPathValue(data: string): { ok: true; value: string } | Refused {
  const parsed = parseData(data);
  return parsed.ok ? { ok: true, value: write(parsed.data) } : parsed;
}

/** `secretPathValue`, and the top-level keys with their values as in `secretKeyValues`. */
export function secretPathMap(data: string): { ok: true; value: string; data: Record<string, string> } | Refused {
  const parsed = parseData(data);
  if (!parsed.ok) return parsed;
  const texts = sortedEntries(parsed.data).map(([key, value]) => [key, asText(value)]);
  return { ok: true, value: write(parsed.data), data: Object.fromEntries(texts) };
}

/** The content of one external object. */
export interface Content {
  /** The secret's key; empty for a whole secret. */
  readonly key: string;
  readonly value: string;
  readonly data?: Readonly<Record<string, string>>;
  /** The value of a whole secret is plain text, and not JSON. */
  readonly isText?: true;
}

/**
 * The contents of a secret's external objects; none for a whole secret without a key that is pushed.
 * @param takesData whether a whole secret is a map, too
 * @param rule the part of the secret that is pushed; default: all
 */
export function contentsOf(
  granularity: Granularity,
  data: string,
  takesData = false,
  rule?: ContentRule,
): { ok: true; values: readonly Content[] } | Refused {
  if (rule) return partsOf(granularity, data, takesData, rule);
  if (granularity === "secret-key") return secretKeyValues(data);
  const whole = takesData ? secretPathMap(data) : secretPathValue(data);
  if (!whole.ok) return whole;
  const { ok, ...content } = whole;
  return { ok, values: [{ key: "", ...content }] };
}

function partsOf(
  granularity: Granularity,
  data: string,
  takesData: boolean,
  { keyGlob, excludeKeyGlob, valueTemplate }: ContentRule,
): { ok: true; values: readonly Content[] } | Refused {
  const parsed = parseData(data);
  if (!parsed.ok) return parsed;
  const isPushed = (key: string) =>
    (keyGlob.length === 0 || keyGlob.some((glob) => matchesPathGlob(key, glob))) &&
    !excludeKeyGlob.some((glob) => matchesPathGlob(key, glob));
  const pushed = sortedEntries(parsed.data).filter(([key]) => isPushed(key));
  const texts = pushed.map(([key, value]) => [key, asText(value)] as const);
  if (granularity === "secret-key") return { ok: true, values: texts.map(([key, value]) => ({ key, value })) };
  if (pushed.length === 0) return { ok: true, values: [] };
  const map = Object.fromEntries(texts);
  if (valueTemplate !== "") {
    const rendered = renderValue(valueTemplate, map);
    return rendered.ok ? { ok: true, values: [{ key: "", value: rendered.value, isText: true }] } : rendered;
  }
  const value = write(Object.fromEntries(pushed));
  return { ok: true, values: [{ key: "", value, ...(takesData && { data: map }) }] };
}

/**
 * The values of the external objects for granularity secret-key: one per top-level key, sorted. A text is used as it
 * is, a number or boolean as JSON text, a list or map as in `secretPathValue`. Null is the empty text. An empty secret
 * has no values. Refused as in `secretPathValue`.
 */
export function secretKeyValues(data: string): { ok: true; values: { key: string; value: string }[] } | Refused {
  const parsed = parseData(data);
  if (!parsed.ok) return parsed;
  const values = sortedEntries(parsed.data).map(([key, value]) => ({ key, value: asText(value) }));
  return { ok: true, values };
}

function parseData(text: string): { ok: true; data: object } | Refused {
  if (isTooDeep(text)) return { ok: false, message: `the secret's data nests deeper than ${maxDepth} levels` };
  let data: unknown;
  try {
    data = json.parse(text, (_key, value, { source }) =>
      typeof value === "number" && source !== undefined ? json.rawJSON(source) : value,
    );
  } catch {
    data = null;
  }
  if (typeof data !== "object" || data === null || Array.isArray(data) || json.isRawJSON(data)) {
    return { ok: false, message: "the secret's data is not a JSON object" };
  }
  return { ok: true, data };
}

/** Counts brackets outside texts without recursion, because the parser itself would exhaust the stack. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const one = text.charAt(at);
    if (quoted) {
      if (one === "\\") at++;
      else if (one === '"') quoted = false;
    } else if (one === '"') quoted = true;
    else if (one === "{" || one === "[") {
      if (++depth > maxDepth) return true;
    } else if (one === "}" || one === "]") depth--;
  }
  return false;
}

function asText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === null ? "" : write(value);
}

/** Compact JSON with sorted keys. JSON.stringify would put keys that look like array indexes first. */
function write(value: unknown): string {
  if (typeof value !== "object" || value === null || json.isRawJSON(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  return `{${sortedEntries(value)
    .map(([key, member]) => `${JSON.stringify(key)}:${write(member)}`)
    .join(",")}}`;
}

const sortedEntries = (value: object): [string, unknown][] =>
  Object.entries(value).sort(([a], [b]) => compareBytes(a, b));

/** UTF-8 byte order is code point order; `<` compares UTF-16 units and puts U+E000 to U+FFFF after emoji. */
function compareBytes(a: string, b: string): number {
  const [left, right] = [a[Symbol.iterator](), b[Symbol.iterator]()];
  for (;;) {
    const [one, other] = [left.next().value?.codePointAt(0) ?? -1, right.next().value?.codePointAt(0) ?? -1];
    if (one !== other) return one - other;
    if (one === -1) return 0;
  }
}
