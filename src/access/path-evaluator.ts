import type { Mount } from "../contracts/mount.ts";
import type { Capability, ParameterConstraints, PathRule } from "../contracts/policies.ts";
import type { Place } from "../contracts/tokens.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { inCanonicalNames } from "./aliases.ts";
import type { MountTable } from "./mounts.ts";
import type { NamespaceTree } from "./namespaces.ts";
import { checkParameters, granted, type PathAcl, ruleFor } from "./path-rules.ts";
import type { Grants } from "./policy-store.ts";

/** The rights of a caller on one path. */
export interface PathDecision {
  /** `["root"]`, `["deny"]`, or capabilities. */
  readonly capabilities: readonly (Capability | "root")[];
  /** Constraints on the request's parameters, if the rule has any. */
  readonly constraints: ParameterConstraints | null;
  /** Whether any rule matches the path. */
  readonly ruled: boolean;
  /** The rule allows only wrapped responses, which this service does not offer. */
  readonly wrappedOnly: boolean;
}

const WRAPPED_ONLY = "permission denied: a policy allows only wrapped answers here, and wrapping is not offered";

/**
 * Evaluates the rights on a path, for every request and every capability query. Rules are compared in one spelling of
 * aliased names, in lower case for caseless names, and without a trailing slash that routes ignore.
 */
export class PathEvaluator {
  readonly #namespaces: NamespaceTree;
  readonly #mounts: MountTable;

  constructor(namespaces: NamespaceTree, mounts: MountTable) {
    this.#namespaces = namespaces;
    this.#mounts = mounts;
  }

  /** @param list the path names a folder */
  evaluate(grants: Grants, at: Place, list: boolean): PathDecision {
    if (grants.root) return { capabilities: ["root"], constraints: null, ruled: true, wrappedOnly: false };
    const caseless = caselessIn(at.path, () => this.#mounts.resolve(at.namespace, at.path));
    const { acl, path } = inCanonicalNames(grants.paths, at.namespace, at.path, caseless);
    const rule = ruleFor(acl, list ? path : unslashed(acl, path), { list });
    const wrappedOnly = Boolean(rule?.minWrappingTtl || rule?.maxWrappingTtl);
    return { capabilities: granted(rule), constraints: constraintsOf(rule), ruled: rule !== undefined, wrappedOnly };
  }

  /** Capabilities on the path of a request; `["deny"]` where only wrapped responses are allowed. */
  capabilities(grants: Grants, namespace: string, path: string): readonly (Capability | "root")[] {
    const at = this.#namespaces.split(namespace, path);
    const { capabilities, wrappedOnly } = this.evaluate(grants, at, path.endsWith("/"));
    return wrappedOnly ? ["deny"] : capabilities;
  }
}

/**
 * Checks a request against the decision for its path.
 * @param needs required capabilities, all of them
 * @param given the request's parameters; reads are exempt from required parameters
 */
export function allows(
  { capabilities, constraints, wrappedOnly }: PathDecision,
  needs: readonly Capability[],
  given: Readonly<Record<string, unknown>>,
): Result<null> {
  if (wrappedOnly) return refuseWrappedOnly();
  if (!capabilities.includes("root") && !needs.every((need) => capabilities.includes(need))) {
    return refuse("denied", "permission denied");
  }
  if (constraints === null) return ok(null);
  const isRead = needs.every((need) => need === "read" || need === "list");
  const checked = checkParameters(isRead ? { ...constraints, requiredParameters: [] } : constraints, given);
  return checked.ok ? ok(null) : refuse("denied", `permission denied: ${checked.message}`);
}

export const refuseWrappedOnly = () => refuse("denied", WRAPPED_ONLY);

function constraintsOf(rule: PathRule | undefined): ParameterConstraints | null {
  const { allowedParameters, deniedParameters, requiredParameters } = rule ?? {};
  return allowedParameters || deniedParameters || requiredParameters ? { ...rule } : null;
}

/** The path to evaluate. Routes ignore a trailing slash, so a rule about the path without it applies as well. */
function unslashed(acl: PathAcl, path: string): string {
  const bare = path.slice(0, -1);
  return path.endsWith("/") && ruleFor(acl, bare) ? bare : path;
}

const POLICY = /^sys\/(policies\/acl|policy)\/[^/]+\/?$/;
const ROLE = /\/(creds|roles)\/[^/]+\/?$/;

/** Index of the path's caseless name, or null. @param mountOf the mount that contains the path */
function caselessIn(path: string, mountOf: () => Mount | null): number | null {
  if (!POLICY.test(path)) {
    if (!ROLE.test(path)) return null;
    const mount = mountOf();
    const inside = path.slice(mount?.path.length ?? 0).replace(/\/$/, "");
    if (mount?.type !== "cloud-b" || inside.split("/").length !== 2) return null;
  }
  return path.replace(/\/$/, "").split("/").length - 1;
}
