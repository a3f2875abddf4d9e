import type { Mount } from "../contracts/mount.ts";
import type { Capability, ParameterConstraints, PathRule } from "../contracts/policies.ts";
import type { Place } from "../contracts/tokens.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { inOneSpelling } from "./aliases.ts";
import type { MountTable } from "./mounts.ts";
import type { NamespaceTree } from "./namespaces.ts";
import { checkParameters, granted, type PathAcl, ruleFor } from "./path-rules.ts";
import type { Grants } from "./policy-store.ts";

/** What a caller may do on one path. */
export interface Judgement {
  /** `["root"]`, `["deny"]`, or capabilities. */
  readonly capabilities: readonly (Capability | "root")[];
  /** What the rule asks of a request's parameters, if anything. */
  readonly constraints: ParameterConstraints | null;
  /** Whether any rule is about the path. */
  readonly ruled: boolean;
  /** The rule allows wrapped answers only, and there are none. */
  readonly wrappedOnly: boolean;
}

const WRAPPED_ONLY = "permission denied: a policy allows only wrapped answers here, and wrapping is not offered";

/**
 * The one judge of paths: every right on a path is decided here, whichever request asks. Rules are compared in one spelling
 * of names that have two, in lower case where names have no case, and without a slash at the end that routes pass over.
 */
export class Judge {
  readonly #namespaces: NamespaceTree;
  readonly #mounts: MountTable;

  constructor(namespaces: NamespaceTree, mounts: MountTable) {
    this.#namespaces = namespaces;
    this.#mounts = mounts;
  }

  /** @param list the path is read as a folder's */
  judge(grants: Grants, at: Place, list: boolean): Judgement {
    if (grants.root) return { capabilities: ["root"], constraints: null, ruled: true, wrappedOnly: false };
    const caseless = caselessIn(at.path, () => this.#mounts.resolve(at.namespace, at.path));
    const { acl, path } = inOneSpelling(grants.paths, at.namespace, at.path, caseless);
    const rule = ruleFor(acl, list ? path : unslashed(acl, path), { list });
    const wrappedOnly = Boolean(rule?.minWrappingTtl || rule?.maxWrappingTtl);
    return { capabilities: granted(rule), constraints: constraintsOf(rule), ruled: rule !== undefined, wrappedOnly };
  }

  /** What is answered about a path of a request: nothing is allowed where only wrapped answers are. */
  capabilities(grants: Grants, namespace: string, path: string): readonly (Capability | "root")[] {
    const at = this.#namespaces.split(namespace, path);
    const { capabilities, wrappedOnly } = this.judge(grants, at, path.endsWith("/"));
    return wrappedOnly ? ["deny"] : capabilities;
  }
}

/**
 * Holds a request against the judgement of its path.
 * @param needs all of these capabilities @param given the request's parameters; a read need not have those that are required
 */
export function allows(
  { capabilities, constraints, wrappedOnly }: Judgement,
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

/** The path that is judged. Routes pass over a slash at its end, so a rule about the path without it holds here, too. */
function unslashed(acl: PathAcl, path: string): string {
  const bare = path.slice(0, -1);
  return path.endsWith("/") && ruleFor(acl, bare) ? bare : path;
}

const POLICY = /^sys\/(policies\/acl|policy)\/[^/]+\/?$/;
const ROLE = /\/(creds|roles)\/[^/]+\/?$/;

/** Which segment of a path is a name that is the same in either case; null: none. @param mountOf the mount that it is in */
function caselessIn(path: string, mountOf: () => Mount | null): number | null {
  if (!POLICY.test(path)) {
    if (!ROLE.test(path)) return null;
    const mount = mountOf();
    const inside = path.slice(mount?.path.length ?? 0).replace(/\/$/, "");
    if (mount?.type !== "cloud-b" || inside.split("/").length !== 2) return null;
  }
  return path.replace(/\/$/, "").split("/").length - 1;
}
