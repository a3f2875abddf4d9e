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
 * The contents of a secret's external objects; none for a whole secret without a key that is pushed. The value of a whole
 * secret is compact JSON, keys sorted at every level as Go sorts them (by UTF-8 bytes), numbers verbatim, no HTML
 * escaping. By key there is one object per top-level key, sorted: a text is used as it is, a number or boolean as JSON
 * text, a list or map as in a whole secret, and null as the empty text.
 * @param data JSON text of the secret's data map. Refused, with one sentence that quotes nothing of it, when it is not a
 *   JSON object or nests deeper than 512 levels
 * @param takesData whether a whole secret is a map, too
 * @param rule the part of the secret that is pushed; default: all
 */
export function contentsOf(
  granularity: Granularity,
  data: string,
  takesData = false,
  rule?: ContentRule,
): { ok: true; values: readonly Content[] } | Refused {
  const parsed = parseData(data);
  if (!parsed.ok) return parsed;
  const pushed = sortedEntries(parsed.data).filter(([key]) => !rule || isPushed(key, rule));
  const texts = () => pushed.map(([key, value]) => ({ key, value: asText(value) }));
  // A template renders one value; the keys that it hides are not pushed by themselves.
  if (granularity === "secret-key" && rule && rule.valueTemplate !== "") return { ok: false, message: TEMPLATE_BY_KEY };
  if (granularity === "secret-key") return { ok: true, values: texts() };
  if (rule && pushed.length === 0) return { ok: true, values: [] };
  const map = () => Object.fromEntries(texts().map(({ key, value }) => [key, value]));
  if (rule && rule.valueTemplate !== "") {
    const rendered = renderValue(rule.valueTemplate, map());
    return rendered.ok ? { ok: true, values: [{ key: "", value: rendered.value, isText: true }] } : rendered;
  }
  const value = writeEntries(pushed);
  return { ok: true, values: [{ key: "", value, ...(takesData && { data: map() }) }] };
}

const TEMPLATE_BY_KEY = "a value template is for one object per secret; set the rule with granularity secret-path";

const isPushed = (key: string, { keyGlob, excludeKeyGlob }: ContentRule): boolean =>
  (keyGlob.length === 0 || keyGlob.some((glob) => matchesPathGlob(key, glob))) &&
  !excludeKeyGlob.some((glob) => matchesPathGlob(key, glob));

/** The top-level keys of a secret with their values; an empty secret has none. */
export const secretKeyValues = (data: string) => contentsOf("secret-key", data);

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
  return writeEntries(sortedEntries(value));
}

const writeEntries = (sorted: readonly [string, unknown][]): string =>
  `{${sorted.map(([key, member]) => `${JSON.stringify(key)}:${write(member)}`).join(",")}}`;

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
