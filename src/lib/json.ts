const MAX_DEPTH = 128;

/** A number outside JavaScript's precision, preserved verbatim by `JSON.stringify`. */
interface RawJson {
  readonly rawJSON: string;
}
interface JsonWithSource {
  parse(
    text: string,
    reviver: (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): RawJson;
}
// The engine supports source text access; TypeScript's library lacks its types.
const json = JSON as unknown as JsonWithSource;

/** Matches texts that may contain a number that `JSON.parse` would not preserve. */
const RISKY_NUMBER = /\d{16}|\d[.eE]|-0/;

/** Parses JSON with JavaScript numbers. @throws SyntaxError, also when it is nested deeper than 128 */
export function parseJson(text: string): unknown {
  checkDepth(text);
  return JSON.parse(text);
}

/** The value of a text from another system; undefined when the text is not JSON. */
export function tryParseJson(text: string): unknown {
  // An exception for each of the many answers without a body takes a twentieth of a revocation.
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The JSON object of a text from another system; null when the text is anything else. */
export function tryParseObject(text: string): Record<string, unknown> | null {
  const value = tryParseJson(text);
  return isPlainObject(value) ? value : null;
}

/**
 * Parses JSON so that stringifying restores every number verbatim, beyond 2^53 and with all its digits.
 * @throws SyntaxError, also when it is nested deeper than `maxDepth`
 */
export function parseLossless(text: string, maxDepth = MAX_DEPTH): unknown {
  checkDepth(text, maxDepth);
  if (!RISKY_NUMBER.test(text)) return JSON.parse(text);
  return json.parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && String(value) !== source ? json.rawJSON(source) : value,
  );
}

/** Deeply nested input would exhaust the stack of recursive consumers. Each body passes here: one loop, no calls. */
function checkDepth(text: string, maxDepth = MAX_DEPTH): void {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > maxDepth) throw new SyntaxError(`nested deeper than ${maxDepth}`);
    } else if (code === 0x7d || code === 0x5d) depth--;
  }
}

/** A string, or one sign of the structure. */
const TOKEN = /"(?:[^"\\]+|\\.)*"|[[\]{},]/g;

/** Characters of each item of an array, whose text has no spaces between them. */
export function itemLengths(array: string): number[] {
  const lengths: number[] = [];
  let depth = 0;
  let from = 1;
  for (const { 0: token, index } of array.matchAll(TOKEN)) {
    if (token === "[" || token === "{") depth++;
    else if (token === "]" || token === "}") depth--;
    const isEnd = depth === 0 ? array !== "[]" : depth === 1 && token === ",";
    if (!isEnd) continue;
    lengths.push(index - from);
    from = index + 1;
  }
  return lengths;
}

export const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRaw(value);

export const isRaw = (value: object): value is RawJson =>
  "isRawJSON" in JSON && (JSON as unknown as { isRawJSON(v: object): boolean }).isRawJSON(value);

/** Replaces verbatim numbers by their text: RPC arguments must be cloneable. */
export function rawAsText(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rawAsText);
  if (typeof value !== "object" || value === null) return value;
  if (isRaw(value)) return value.rawJSON;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rawAsText(item)]));
}

/**
 * Whether parsed values are equal, whatever the order of members; numbers compare by value, verbatim ones by their
 * text.
 */
export function equalJson(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (isRaw(a) || isRaw(b)) return isRaw(a) && isRaw(b) && a.rawJSON === b.rawJSON;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, at) => equalJson(item, b[at]));
  }
  const entries = Object.entries(a);
  const other = new Map(Object.entries(b));
  return (
    entries.length === other.size && entries.every(([key, item]) => other.has(key) && equalJson(item, other.get(key)))
  );
}

/** JSON merge patch (RFC 7396): null deletes, objects merge, everything else replaces. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isPlainObject(patch)) return patch;
  const entries = new Map(isPlainObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) entries.delete(key);
    else entries.set(key, mergePatch(entries.get(key), value));
  }
  // fromEntries defines properties, so a key named __proto__ stays an ordinary key.
  return Object.fromEntries(entries);
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** The defined members of a change. */
export const withoutUndefined = <T extends object>(values: T): Partial<Defined<T>> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<Defined<T>>;
