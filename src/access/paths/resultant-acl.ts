import type { Namespace } from "../../contracts/namespaces.ts";
import type { ParameterRule, PathRule } from "../../contracts/policies.ts";
import type { ResultantAcl } from "../../contracts/tokens.ts";
import { granted, mayBelow } from "../../rights/path-rules.ts";
import type { Viewer } from "../mounts/mount-views.ts";
import type { Grants } from "../policies/policy-store.ts";

/**
 * The rules of a token as upstream's web interface reads them. Paths are relative to the root namespace; a path with a
 * `+` is among the globs, as upstream.
 */
export function resultantAcl({ root, paths }: Grants): ResultantAcl {
  const entry = (rule: PathRule, path: string) => [path, resultantRule(rule)] as const;
  return {
    root,
    exact_paths: Object.fromEntries([...paths.exact].map(([path, rule]) => entry(rule, path))),
    glob_paths: Object.fromEntries(paths.wild.map(({ rule }) => entry(rule, rule.path.replace(/\*$/, "")))),
  };
}

function resultantRule(rule: PathRule): ResultantAcl["exact_paths"][string] {
  const { allowedParameters, deniedParameters, requiredParameters, minWrappingTtl, maxWrappingTtl } = rule;
  return {
    capabilities: granted(rule),
    ...(allowedParameters && { allowed_parameters: valuesByName(allowedParameters) }),
    ...(deniedParameters && { denied_parameters: valuesByName(deniedParameters) }),
    ...(requiredParameters && { required_parameters: requiredParameters }),
    ...(minWrappingTtl && { min_wrapping_ttl: minWrappingTtl }),
    ...(maxWrappingTtl && { max_wrapping_ttl: maxWrappingTtl }),
    ...(rule.paginationLimit && { pagination_limit: rule.paginationLimit }),
    ...(rule.subscribeEventTypes && { subscribe_event_types: rule.subscribeEventTypes }),
  };
}

const valuesByName = (rules: readonly ParameterRule[]) =>
  Object.fromEntries(rules.map(({ name, values }) => [name, values]));

/** The paths of those namespaces in or below which a caller has any capability. */
export const visibleNamespaces = ({ grants, namespace }: Viewer, all: readonly Namespace[]): string[] =>
  all
    .map(({ path }) => path)
    .filter((path) => path.startsWith(namespace) && (grants.root || mayBelow(grants.paths, path)));
