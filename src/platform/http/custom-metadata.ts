import { isPlainObject, rawAsText } from "../../lib/json.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { asMap } from "./fields.ts";

/** Custom metadata as sent; in a patch, null removes a key. */
export type CustomMetadataChange = Readonly<Record<string, string | null>>;

const MAX_KEYS = 64;
const MAX_KEY_BYTES = 128;
const MAX_VALUE_BYTES = 512;
const MAX_TOLD = 100;
const PRINTABLE = /^[^\p{Cc}\p{Cs}\p{Co}\p{Cn}]*$/u;

/** Reads custom metadata from a request. Checks only types: sizes are known after the merge. */
export function readCustomMetadata(given: unknown, patch: boolean): Result<CustomMetadataChange> {
  // As upstream, no text removes metadata, and a patch takes objects only.
  const isText = typeof given === "string" && (patch || given.trim() === "");
  const value = isText ? given : asMap(given);
  if (!isPlainObject(value)) return failed(["must be a map of strings"]);
  const read = Object.entries(value).map(([key, item]): [string, unknown] => [key, asText(item)]);
  const wrong = read
    .filter(([, item]) => typeof item !== "string" && !(patch && item === null))
    .map(([key]) => `value of key ${shown(key)} must be a string`);
  return wrong.length === 0 ? ok(Object.fromEntries(read) as CustomMetadataChange) : failed(wrong);
}

/** As upstream's weak decoding, which writes true as 1. */
function asText(value: unknown): unknown {
  if (typeof value === "boolean") return value ? "1" : "0";
  return typeof value === "number" ? String(value) : rawAsText(value);
}

/**
 * Custom metadata after a change, as JSON text; null = none.
 * @param before JSON text or null; @param patch merges key by key, null removes
 */
export function changeCustomMetadata(
  before: string | null,
  change: CustomMetadataChange | null | undefined,
  patch: boolean,
): Result<string | null> {
  if (change === undefined || (change === null && !patch)) return ok(before);
  // A map, because a key may be called __proto__.
  const entries = new Map<string, string>(patch && change && before !== null ? Object.entries(JSON.parse(before)) : []);
  for (const [key, value] of Object.entries(change ?? {})) {
    if (value === null) entries.delete(key);
    else entries.set(key, value);
  }
  const wrong = violations(entries);
  if (wrong.length > 0) return failed(wrong);
  return ok(entries.size === 0 ? null : JSON.stringify(Object.fromEntries(entries)));
}

/** Every violated rule, so that one answer lists all of them. */
function violations(entries: ReadonlyMap<string, string>): string[] {
  const wrong: string[] = [];
  if (entries.size > MAX_KEYS) wrong.push(`${entries.size} keys provided, at most ${MAX_KEYS} allowed`);
  for (const [key, value] of entries) {
    const keyBytes = Buffer.byteLength(key);
    const valueBytes = Buffer.byteLength(value);
    if (keyBytes < 1 || keyBytes > MAX_KEY_BYTES) {
      wrong.push(`key ${shown(key)} has ${keyBytes} bytes, must have 1 to ${MAX_KEY_BYTES}`);
    }
    if (valueBytes < 1 || valueBytes > MAX_VALUE_BYTES) {
      wrong.push(`value of key ${shown(key)} has ${valueBytes} bytes, must have 1 to ${MAX_VALUE_BYTES}`);
    }
    if (!PRINTABLE.test(key)) wrong.push(`key ${shown(key)} holds unprintable characters`);
    if (!PRINTABLE.test(value)) wrong.push(`value of key ${shown(key)} holds unprintable characters`);
  }
  return wrong;
}

const shown = (key: string): string => JSON.stringify(key.slice(0, 40));

const failed = (wrong: readonly string[]): Refusal =>
  refuse("invalid", `custom_metadata validation failed: ${wrong.slice(0, MAX_TOLD).join("; ")}`);
