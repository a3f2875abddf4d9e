import { ok, type Result, refuse } from "../../lib/result.ts";
import { claimAt } from "./claims.ts";
import type { Claims } from "./verify.ts";

type Mapping = Readonly<Record<string, string>>;

/** Claims by the names that mappings give them: texts, and lists of texts. */
interface MappedClaims {
  readonly value: Readonly<Record<string, string>>;
  readonly list: Readonly<Record<string, readonly string[]>>;
}

const MAX_ITEMS = 1_000;

/**
 * Copies claims under the names of mappings, by name or JSON pointer. Absent claims are left out; booleans and numbers
 * become texts, numbers without their fraction. Refused when a claim is of another type.
 * (https://developer.hashicorp.com/nomad/api-docs/acl/auth-methods#claimmappings)
 */
export function mappedClaims(claims: Claims, values: Mapping, lists: Mapping): Result<MappedClaims> {
  const value: Record<string, string> = Object.create(null);
  for (const [source, target] of Object.entries(values)) {
    const given = claimAt(claims, source) ?? null;
    if (given === null) continue;
    const text = textOf(given);
    if (text === null) return refuse("invalid", `error converting claim '${source}' to string from unknown type`);
    value[target] = text;
  }
  const list: Record<string, readonly string[]> = Object.create(null);
  for (const [source, target] of Object.entries(lists)) {
    const given = claimAt(claims, source) ?? null;
    if (given === null) continue;
    const texts = (Array.isArray(given) ? given : [given]).map(textOf);
    if (texts.length > MAX_ITEMS || texts.includes(null)) {
      return refuse("invalid", `${JSON.stringify(source)} list claim could not be converted to string list`);
    }
    list[target] = texts.filter((text) => text !== null && text !== "") as string[];
  }
  return ok({ value: { ...value }, list: { ...list } });
}

function textOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  return typeof value === "number" && Number.isFinite(value) ? String(BigInt(Math.trunc(value))) : null;
}
