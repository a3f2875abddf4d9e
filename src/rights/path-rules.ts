import { neutralField, otherName } from "../compat/engine-names.ts";
import type {
  Capability,
  ParameterConstraints,
  ParameterRule,
  ParameterValue,
  PathRule,
} from "../contracts/policies.ts";
import { matchesGlob } from "../lib/glob.ts";

/**
 * Path rules: the capabilities of a set of policies on a path, and the constraints on a request's parameters.
 *
 * Exactly one pattern decides about a path. Rules with that pattern are merged when they are compiled, from all
 * policies. Rules with other matching patterns have no effect. A lookup is one map access, then a scan of the patterns
 * with wildcards.
 */

/** The path rules of a policy and its namespace: `""` for the root, otherwise for example `ns1/`. */
export interface ScopedPolicy {
  readonly namespace: string;
  readonly paths: readonly PathRule[];
}

export interface PathAcl {
  readonly exact: ReadonlyMap<string, PathRule>;
  /** The rules with a wildcard, most specific first: the first match decides. */
  readonly wild: readonly WildRule[];
}

interface WildRule {
  readonly rule: PathRule;
  /** Text before the first wildcard. It excludes most rules without splitting the path. */
  readonly start: string;
  readonly isPrefix: boolean;
  /** The pattern's segments without the final `*`; undefined for a pattern without `+`. */
  readonly segments: readonly string[] | undefined;
  readonly plusses: number;
}

/**
 * Compiles the path rules of all policies of a token.
 * @throws RangeError for a namespace that could be read as a pattern. Names of namespaces exclude that, so it is a
 * defect, and must not widen a rule.
 */
export function compilePaths(policies: readonly ScopedPolicy[]): PathAcl {
  const merged = new Map<string, PathRule>();
  for (const { namespace, paths } of policies) {
    if (/[+*]/.test(namespace) || !/^$|[^/]\/$/.test(namespace)) throw new RangeError(`not a namespace: ${namespace}`);
    for (const rule of paths) {
      const path = namespace + rule.path;
      const earlier = merged.get(path);
      merged.set(path, earlier === undefined ? { ...rule, path } : mergeRules(earlier, rule));
    }
  }
  const exact = new Map<string, PathRule>();
  const wild: WildRule[] = [];
  for (const rule of merged.values()) {
    const compiled = compileWild(rule);
    if (compiled === undefined) exact.set(rule.path, rule);
    else wild.push(compiled);
  }
  return { exact, wild: wild.sort(bySpecificity) };
}

/**
 * The rule that decides about a path, if any. With `list`, the path is a folder: `a` and `a/` are equivalent. The exact
 * rule for `a/` precedes the one for `a`; of the patterns with wildcards, those that match `a` precede those that match
 * `a/` only (https://github.com/hashicorp/vault/pull/23874).
 */
export function ruleFor(acl: PathAcl, path: string, options: { list?: boolean } = {}): PathRule | undefined {
  const asked = withoutLeadingSlash(path);
  // A rule never reaches outside its folder, even if dots are resolved later.
  if (asked.split("/").includes("..")) return undefined;
  if (!options.list) return acl.exact.get(asked) ?? wildRuleFor(acl, asked);
  const name = asked.endsWith("/") ? asked.slice(0, -1) : asked;
  const folder = `${name}/`;
  return acl.exact.get(folder) ?? acl.exact.get(name) ?? wildRuleFor(acl, name) ?? wildRuleFor(acl, folder);
}

/** The capabilities on a path, sorted; `["deny"]` without a matching rule, or if the deciding rule denies. */
export const capabilitiesFor = (acl: PathAcl, path: string, options: { list?: boolean } = {}): Capability[] =>
  granted(ruleFor(acl, path, options));

/** The capabilities of the deciding rule; `["deny"]` without one. */
export function granted(rule: PathRule | undefined): Capability[] {
  const capabilities = rule?.capabilities ?? [];
  return grants(capabilities) ? [...capabilities].sort() : ["deny"];
}

/**
 * Whether all paths that begin with `prefix` have these capabilities, without constraints: one prefix rule covers them,
 * and each rule that decides before it about some of them grants as much.
 */
export function grantsBelow(acl: PathAcl, prefix: string, needs: readonly Capability[]): boolean {
  const asked = withoutLeadingSlash(prefix);
  const grants = (rule: PathRule): boolean => {
    const { allowedParameters, deniedParameters, requiredParameters, minWrappingTtl, maxWrappingTtl } = rule;
    const isBound = allowedParameters ?? deniedParameters ?? requiredParameters ?? (minWrappingTtl || maxWrappingTtl);
    const given = granted(rule);
    return !isBound && needs.every((need) => given.includes(need));
  };
  for (const [path, rule] of acl.exact) if (path.startsWith(asked) && !grants(rule)) return false;
  for (const { rule, start, isPrefix, segments } of acl.wild) {
    if (!start.startsWith(asked) && !asked.startsWith(start)) continue;
    if (!grants(rule)) return false;
    if (isPrefix && segments === undefined && asked.startsWith(start)) return true;
  }
  return false;
}

/**
 * Whether any capability is granted on a folder such as `kv/` or below it. Each granting rule yields an example path in
 * the folder, and the whole rule set is evaluated for it.
 */
export function mayBelow(acl: PathAcl, folder: string): boolean {
  if (grants(ruleFor(acl, folder, { list: true })?.capabilities ?? [])) return true;
  const parts = folder.replace(/\/$/, "").split("/");
  for (const { path, capabilities } of [...acl.exact.values(), ...acl.wild.map(({ rule }) => rule)]) {
    const example = grants(capabilities) ? pathInside(path, parts) : undefined;
    if (example !== undefined && grants(ruleFor(acl, example)?.capabilities ?? [])) return true;
  }
  return false;
}

/**
 * The constraints on the parameters of a request that uses a capability: none for a list, and none that requires a
 * parameter for a deletion, as upstream.
 */
export function constraintsFor(
  constraints: ParameterConstraints | null,
  capability: Capability | undefined,
): ParameterConstraints | null {
  if (constraints === null || capability === "list") return null;
  return capability === "delete" ? { ...constraints, requiredParameters: [] } : constraints;
}

export type ParameterCheck =
  | { readonly ok: true }
  | { readonly ok: false; readonly parameter: string; readonly message: string };

export type ListLimit = { readonly ok: true; readonly limit: string | null } | { readonly ok: false };

/**
 * The `limit` of a list under the deciding rule: the rule's own without one, or with 0 or `max`. A greater one is
 * refused, as is none where the rule requires the parameter
 * (https://openbao.org/docs/concepts/policies/#pagination-limit).
 * @param given of the request; null for none
 */
export function listLimit(
  { paginationLimit: most, requiredParameters }: ParameterConstraints,
  given: string | null,
): ListLimit {
  if (most === undefined) return { ok: true, limit: given };
  if (given === null && requiredParameters?.includes("limit")) return { ok: false };
  if (given === null || given === "max") return { ok: true, limit: String(most) };
  if (!/^\d{1,15}$/.test(given) || Number(given) > most) return { ok: false };
  return { ok: true, limit: Number(given) === 0 ? String(most) : given };
}

/**
 * Checks a request's parameters against the deciding rule. Names compare without case, and aliases are equivalent; a
 * denied parameter stays denied if it is also allowed.
 */
export function checkParameters(rule: ParameterConstraints, data: Readonly<Record<string, unknown>>): ParameterCheck {
  const given = Object.entries(data).map(([name, value]) => ({
    name,
    key: neutralField(name.toLowerCase()),
    value,
  }));
  for (const name of rule.requiredParameters ?? []) {
    if (!given.some(({ key }) => key === neutralField(name))) return refuse(name, "is required by policy");
  }
  const denied = byName(inNeutral(rule.deniedParameters));
  const allowed = byName(inNeutral(rule.allowedParameters));
  for (const { name, key, value } of given) {
    if (denied.has("*")) return refuse(name, "is denied by policy");
    const deniedValues = denied.get(key);
    if (deniedValues !== undefined && (deniedValues.length === 0 || touches(value, deniedValues))) {
      return refuse(name, deniedValues.length === 0 ? "is denied by policy" : "has a value denied by policy");
    }
    if (allowed.size === 0) continue;
    const allowedValues = allowed.get(key) ?? allowed.get("*");
    if (allowedValues === undefined) return refuse(name, "is not allowed by policy");
    if (allowedValues.length > 0 && !isWithin(value, allowedValues)) {
      return refuse(name, "has a value not allowed by policy");
    }
  }
  return { ok: true };
}

function refuse(parameter: string, why: string): ParameterCheck {
  return { ok: false, parameter, message: `parameter ${JSON.stringify(parameter)} ${why}` };
}

function withoutLeadingSlash(path: string): string {
  return path.replace(/^\/+/, "");
}

function wildRuleFor(acl: PathAcl, path: string): PathRule | undefined {
  const segments = path.split("/");
  return acl.wild.find((candidate) => matches(candidate, path, segments))?.rule;
}

function grants(capabilities: readonly Capability[]): boolean {
  return capabilities.length > 0 && !capabilities.includes("deny");
}

/** A path that matches the pattern and is the folder or lies in it; undefined if there is none. */
function pathInside(pattern: string, folder: readonly string[]): string | undefined {
  const isPrefix = pattern.endsWith("*");
  const segments = (isPrefix ? pattern.slice(0, -1) : pattern).split("/");
  // Open segments get a name that no other rule matches, which shows the effect of this pattern alone.
  const anyName = "\0";
  const path: string[] = [];
  for (let i = 0; i < Math.max(segments.length, folder.length); i++) {
    const segment = segments[i];
    const part = folder[i];
    const isOpen = segment === undefined ? isPrefix : segment === "+";
    const isBegun = isPrefix && i === segments.length - 1 && part?.startsWith(segment ?? "");
    if (part !== undefined && part !== segment && !isOpen && !isBegun) return undefined;
    path.push(part ?? (isOpen ? anyName : (segment ?? "")));
  }
  if (!isPrefix) return path.join("/");
  return path.join("/") + (path.length > folder.length ? anyName : `/${anyName}`);
}

function compileWild(rule: PathRule): WildRule | undefined {
  const isPrefix = rule.path.endsWith("*");
  const literal = isPrefix ? rule.path.slice(0, -1) : rule.path;
  const segments = literal.split("/");
  const plusses = segments.filter((segment) => segment === "+").length;
  if (plusses === 0) return isPrefix ? { rule, start: literal, isPrefix, segments: undefined, plusses } : undefined;
  const start = segments
    .slice(0, segments.indexOf("+"))
    .map((segment) => `${segment}/`)
    .join("");
  return { rule, start, isPrefix, segments, plusses };
}

/**
 * The five rules of precedence, in order; the more specific pattern sorts first
 * (https://developer.hashicorp.com/vault/docs/concepts/policies#priority-matching).
 */
function bySpecificity(a: WildRule, b: WildRule): number {
  return (
    b.start.length - a.start.length ||
    Number(a.isPrefix) - Number(b.isPrefix) ||
    a.plusses - b.plusses ||
    b.rule.path.length - a.rule.path.length ||
    (a.rule.path > b.rule.path ? -1 : 1)
  );
}

function matches(candidate: WildRule, path: string, parts: readonly string[]): boolean {
  if (!path.startsWith(candidate.start)) return false;
  const { segments, isPrefix } = candidate;
  if (segments === undefined) return true;
  if (isPrefix ? parts.length < segments.length : parts.length !== segments.length) return false;
  const last = segments.length - 1;
  return segments.every((segment, index) => {
    const part = parts[index] ?? "";
    return segment === "+" || part === segment || (isPrefix && index === last && part.startsWith(segment));
  });
}

/**
 * Merges two rules with one pattern: capabilities and parameters add up, deny wins, and the lesser bound of each kind
 * holds, as upstream prefers short lives.
 */
function mergeRules(a: PathRule, b: PathRule): PathRule {
  const capabilities = new Set([...a.capabilities, ...b.capabilities]);
  const allowedParameters = mergeParameters(a.allowedParameters, b.allowedParameters);
  const deniedParameters = mergeParameters(a.deniedParameters, b.deniedParameters);
  const required = new Set([...(a.requiredParameters ?? []), ...(b.requiredParameters ?? [])]);
  const minWrappingTtl = lesser(a.minWrappingTtl, b.minWrappingTtl);
  const maxWrappingTtl = lesser(a.maxWrappingTtl, b.maxWrappingTtl);
  const paginationLimit = lesser(a.paginationLimit, b.paginationLimit);
  const eventTypes = new Set([...(a.subscribeEventTypes ?? []), ...(b.subscribeEventTypes ?? [])]);
  return {
    path: a.path,
    capabilities: capabilities.has("deny") ? ["deny"] : [...capabilities].sort(),
    ...(allowedParameters && { allowedParameters }),
    ...(deniedParameters && { deniedParameters }),
    ...(required.size > 0 && { requiredParameters: [...required] }),
    ...(minWrappingTtl !== undefined && { minWrappingTtl }),
    ...(maxWrappingTtl !== undefined && { maxWrappingTtl }),
    ...(paginationLimit !== undefined && { paginationLimit }),
    ...(eventTypes.size > 0 && { subscribeEventTypes: [...eventTypes] }),
  };
}

const lesser = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);

function mergeParameters(
  a: readonly ParameterRule[] | undefined,
  b: readonly ParameterRule[] | undefined,
): readonly ParameterRule[] | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const merged = byName(a);
  for (const { name, values } of b) {
    const earlier = merged.get(name);
    // An empty list means any value, which includes the values of the other rule.
    const any = values.length === 0 || earlier?.length === 0;
    merged.set(name, any ? [] : [...(earlier ?? []), ...values]);
  }
  return [...merged].map(([name, values]) => ({ name, values }));
}

/** Converts parameter names to neutral ones, and merges the rules of aliases. */
const inNeutral = (rules: readonly ParameterRule[] = []): readonly ParameterRule[] | undefined =>
  mergeParameters(
    [],
    rules.map(({ name, values }) => ({ name: neutralField(name), values })),
  );

function byName(rules: readonly ParameterRule[] | undefined): Map<string, readonly ParameterValue[]> {
  return new Map(rules?.map(({ name, values }) => [name, values]));
}

/** A list is allowed if it is listed itself, or if all its elements are. */
function isWithin(value: unknown, listed: readonly ParameterValue[]): boolean {
  if (listed.some((each) => isSame(value, each))) return true;
  return elementsOf(value)?.every((element) => isWithin(element, listed)) ?? false;
}

/** A list is denied if it is listed itself, or contains a listed element: brackets do not bypass a rule. */
function touches(value: unknown, listed: readonly ParameterValue[]): boolean {
  if (listed.some((each) => isSame(value, each))) return true;
  return elementsOf(value)?.some((element) => touches(element, listed)) ?? false;
}

/** The elements of a list, which routes accept as text with commas, too; null for a single value. */
function elementsOf(value: unknown): readonly unknown[] | null {
  if (Array.isArray(value)) return value;
  if (value === "") return [];
  return typeof value === "string" && value.includes(",") ? value.split(",").map((each) => each.trim()) : null;
}

/**
 * Compares a value with a listed one. Scalars compare as text, because routes accept `"5"` for 5 and a rule about 5
 * applies to both; a listed text may contain `*`. Lists compare element by element.
 */
function isSame(value: unknown, listed: ParameterValue): boolean {
  if (Array.isArray(value) || typeof listed === "object") {
    if (listed === null) return value === null;
    if (!Array.isArray(value) || !Array.isArray(listed) || value.length !== listed.length) return false;
    return value.every((element, index) => isSame(element, listed[index]));
  }
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return false;
  const text = String(value);
  return matchesGlob(text, String(listed)) || matchesGlob(otherName(text), String(listed));
}
