import { matchesGlob } from "../../lib/glob.ts";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { Claims } from "./verify.ts";

/** Claims that a role copies, and those that it requires. */
export interface ClaimRules {
  readonly bound_claims: Readonly<Record<string, unknown>>;
  readonly bound_claims_type: "string" | "glob";
  readonly user_claim: string;
  readonly user_claim_json_pointer: boolean;
  readonly claim_mappings: Readonly<Record<string, string>>;
  readonly groups_claim: string;
  /** Separates groups in one text, by the provider of the configuration; a text is one group without it. */
  readonly groups_separator?: string;
}

/** The caller that a token's claims describe. */
interface Caller {
  readonly name: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly groups: readonly string[];
}

const MAX_GROUPS = 1_000;

/** A claim by name, or by JSON pointer (RFC 6901) when the name begins with a slash; undefined when it is absent. */
export function claimAt(claims: Claims, name: string): unknown {
  if (!name.startsWith("/")) return Object.hasOwn(claims, name) ? claims[name] : undefined;
  let value: unknown = claims;
  for (const part of name.slice(1).split("/")) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = /^\d+$/.test(key) ? value[Number(key)] : undefined;
    else value = isPlainObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

/** The caller's name, metadata and groups. Refused when a claim is missing or of another type. */
export function callerOf(claims: Claims, rules: ClaimRules, role: string): Result<Caller> {
  const { user_claim: claim, user_claim_json_pointer: isPointer } = rules;
  const name = isPointer || Object.hasOwn(claims, claim) ? (isPointer ? claimAt(claims, claim) : claims[claim]) : null;
  if (name === undefined || name === null) return refuse("invalid", `claim "${claim}" not found in token`);
  if (typeof name !== "string" || name === "") {
    return refuse("invalid", `claim "${claim}" could not be converted to string`);
  }
  const metadata: Record<string, string> = {};
  for (const [source, target] of Object.entries(rules.claim_mappings)) {
    const value = claimAt(claims, source) ?? null;
    if (value === null) continue;
    if (typeof value !== "string") return refuse("invalid", `error converting claim '${source}' to string`);
    metadata[target] = value;
  }
  const groups = groupsOf(claims, rules);
  return groups.ok ? ok({ name, metadata: { ...metadata, role }, groups: groups.value }) : groups;
}

function groupsOf(claims: Claims, { groups_claim: claim, groups_separator: separator }: ClaimRules): Result<string[]> {
  if (claim === "") return ok([]);
  const value = claimAt(claims, claim) ?? null;
  if (value === null) return refuse("invalid", `failed to fetch groups: "${claim}" claim not found in token`);
  const groups = typeof value === "string" && separator !== undefined ? value.split(separator) : listOf(value);
  if (groups === null) return refuse("invalid", `"${claim}" claim could not be converted to string list`);
  if (groups.length > MAX_GROUPS) return refuse("invalid", `"${claim}" claim has more than ${MAX_GROUPS} groups`);
  const names = groups.filter((group) => typeof group === "string");
  if (names.length < groups.length) return refuse("invalid", "value in groups claim could not be parsed as string");
  return ok(names.filter((group) => group !== ""));
}

/** Why the claims do not have the values that a role requires; null when they do. */
export function boundClaimsProblem(claims: Claims, rules: ClaimRules): string | null {
  for (const [claim, wanted] of Object.entries(rules.bound_claims)) {
    const value = claimAt(claims, claim) ?? null;
    if (value === null) return `claim "${claim}" is missing`;
    const values = listOf(value);
    if (values === null) return "received claim is not a string, bool, int or list";
    const matches = (listOf(wanted) ?? []).some((one) => values.some((given) => isMatch(given, one, rules)));
    if (!matches) return `claim "${claim}" does not match any associated bound claim values`;
  }
  return null;
}

function isMatch(given: unknown, wanted: unknown, { bound_claims_type: type }: ClaimRules): boolean {
  if (type === "string") return given === wanted;
  return typeof given === "string" && typeof wanted === "string" && matchesGlob(given, wanted);
}

/** A list, or a single value as a list; null for objects. */
function listOf(value: unknown): unknown[] | null {
  if (Array.isArray(value)) return value;
  return typeof value === "object" ? null : [value];
}
