import { type Alias, aliasIn, withSegment } from "../compat/sync-paths.ts";
import type { PathRule } from "../contracts/policies.ts";
import { compilePaths, type PathAcl } from "./path-rules.ts";

/** Segments of a path that are compared without case. */
export interface CaselessSegments {
  /** Counted from 0. */
  readonly first: number;
  readonly count: number;
}

/** A path with some segments in lower case. */
export const inLowerCase = (path: string, { first, count }: CaselessSegments): string =>
  path
    .split("/")
    .map((segment, at) => (at >= first && at < first + count ? segment.toLowerCase() : segment))
    .join("/");

/**
 * Converts a path and the rules about it to one spelling of names, so that a rule holds for requests by either name.
 * Only the aliased segment of the requested path is converted: equal words elsewhere are left alone. Converted rules
 * are cached per rule set and segment.
 * @param path inside `namespace`
 * @param caseless in `path`; null for none
 */
export function inCanonicalNames(
  acl: PathAcl,
  namespace: string,
  path: string,
  caseless: CaselessSegments | null = null,
): { acl: PathAcl; path: string } {
  const named = aliasIn(path);
  if (!named) return caseless === null ? { acl, path: namespace + path } : withoutCase(acl, namespace, path, caseless);
  const at = { ...named, segment: named.segment + namespace.split("/").length - 1 };
  return {
    acl: respelt(acl, `${at.segment} ${at.neutral}`, (rule) => toCanonical(rule, at)),
    path: withSegment(namespace + path, at.segment, at.neutral),
  };
}

/** One request may be about a thousand paths, and compiling many rules takes milliseconds. */
const canonicalRules = new WeakMap<PathAcl, Map<string, PathAcl>>();

/** The rule set with each rule in another spelling, of which `key` is the name. A rule that stays is returned as it is. */
function respelt(acl: PathAcl, key: string, spell: (rule: PathRule) => PathRule): PathAcl {
  const known = canonicalRules.get(acl) ?? new Map<string, PathAcl>();
  canonicalRules.set(acl, known);
  const cached = known.get(key);
  if (cached) return cached;
  const rules = [...acl.exact.values(), ...acl.wild.map(({ rule }) => rule)];
  const spelt = rules.map(spell);
  const changed = spelt.some((rule, index) => rule !== rules[index]);
  const compiled = changed ? compilePaths([{ namespace: "", paths: spelt }]) : acl;
  known.set(key, compiled);
  return compiled;
}

function toCanonical(rule: PathRule, { segment, neutral, upstream }: Alias): PathRule {
  const isPrefix = rule.path.endsWith("*");
  const segments = (isPrefix ? rule.path.slice(0, -1) : rule.path).split("/");
  const word = segments[segment];
  if (!word) return rule;
  const end = isPrefix ? "*" : "";
  if (word === upstream) return { ...rule, path: segments.with(segment, neutral).join("/") + end };
  if (!isPrefix || segment !== segments.length - 1) return rule;
  // A glob that ends inside a name, such as `aws-*`. Lengths of prefixes of different names do not compare, so a deny
  // holds against all other rules of this kind. The other rules keep their order.
  const denies = rule.capabilities.includes("deny");
  if (denies && (upstream.startsWith(word) || neutral.startsWith(word))) {
    return { ...rule, path: `${segments.with(segment, neutral).join("/")}*` };
  }
  if (!upstream.startsWith(word)) return rule;
  return { ...rule, path: `${segments.with(segment, neutral.slice(0, word.length)).join("/")}*` };
}

/** Roles and policies are stored by lower-case names, so rules about them are compared in lower case. */
function withoutCase(acl: PathAcl, namespace: string, path: string, { first, count }: CaselessSegments) {
  const segments = { first: first + namespace.split("/").length - 1, count };
  const spelt = respelt(acl, `lower ${segments.first} ${count}`, (rule) => {
    const lower = inLowerCase(rule.path, segments);
    return lower === rule.path ? rule : { ...rule, path: lower };
  });
  return { acl: spelt, path: inLowerCase(namespace + path, segments) };
}
