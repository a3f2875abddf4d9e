import type { AuthPlace } from "../../contracts/auth.ts";
import type { Mount } from "../../contracts/mount.ts";
import type { Located } from "../../contracts/namespaces.ts";
import type { Capability, ParameterConstraints, PathRule } from "../../contracts/policies.ts";
import { isCaseless } from "../../credentials/engines/descriptions.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { type CaselessSegments, inCanonicalNames } from "../../rights/aliases.ts";
import {
  checkParameters,
  constraintsFor,
  granted,
  grantsBelow,
  type PathAcl,
  ruleFor,
} from "../../rights/path-rules.ts";
import type { Grants } from "../policies/policy-store.ts";
import type { PathResolver } from "./path-resolver.ts";

/** The rights of a caller on one path. */
interface PathDecision {
  /** `["root"]`, `["deny"]`, or capabilities. */
  readonly capabilities: readonly (Capability | "root")[];
  /** Constraints on the request's parameters, if the rule has any. */
  readonly constraints: ParameterConstraints | null;
  /** Whether any rule matches the path. */
  readonly ruled: boolean;
  /** Bounds of the wrap TTL in seconds, if the rule allows only wrapped answers. */
  readonly wrapBounds: WrapBounds | null;
}

interface WrapBounds {
  readonly least: number;
  readonly most: number;
}

/**
 * Evaluates the rights on a path, for every request and every capability query. Rules are compared in one spelling of
 * aliased names, in lower case for caseless names, and without a trailing slash that routes ignore.
 */
export class PathEvaluator {
  constructor(private readonly paths: PathResolver) {}

  /** @param list the path names a folder */
  evaluate(grants: Grants, at: Located, list: boolean): PathDecision {
    if (grants.root) return { capabilities: ["root"], constraints: null, ruled: true, wrapBounds: null };
    const caseless = caselessSegments(this.paths, at);
    const { acl, path } = inCanonicalNames(grants.paths, at.namespace, at.path, caseless);
    const rule = ruleFor(acl, list ? path : unslashed(acl, path), { list });
    const decision = { capabilities: granted(rule), constraints: constraintsOf(rule), ruled: rule !== undefined };
    return { ...decision, wrapBounds: boundsOf(rule) };
  }

  /** Whether all paths that begin with a text have these capabilities. */
  grantsBelow(grants: Grants, at: Located, needs: readonly Capability[]): boolean {
    if (grants.root) return true;
    const { acl, path } = inCanonicalNames(grants.paths, at.namespace, at.path, caselessSegments(this.paths, at));
    return grantsBelow(acl, path, needs);
  }

  /** Capabilities on the path of a request, with a wrap TTL that its rule allows. */
  capabilities(grants: Grants, namespace: string, path: string): readonly (Capability | "root")[] {
    const at = this.paths.split(namespace, path);
    return this.evaluate(grants, at, path.endsWith("/")).capabilities;
  }
}

/**
 * Checks a request against the decision for its path.
 * @param needs required capabilities, all of them; the first is the capability of the request's verb
 * @param given the request's parameters
 * @param wrapTtl see `wrapTtlRefusal`
 */
export function allows(
  { capabilities, constraints, wrapBounds }: PathDecision,
  needs: readonly Capability[],
  given: Readonly<Record<string, unknown>>,
  wrapTtl: number,
): Result<null> {
  const refused = wrapTtlRefusal(wrapBounds, wrapTtl);
  if (refused) return refused;
  if (!capabilities.includes("root") && !needs.every((need) => capabilities.includes(need))) {
    return refuse("denied", "permission denied");
  }
  const applied = constraintsFor(constraints, needs[0]);
  if (applied === null) return ok(null);
  const checked = checkParameters(applied, given);
  return checked.ok ? ok(null) : refuse("denied", `permission denied: ${checked.message}`);
}

/**
 * The refusal of a request whose wrap TTL is out of a rule's bounds; null otherwise. A rule with bounds allows no open
 * answer (https://developer.hashicorp.com/vault/docs/concepts/policies#required-response-wrapping-ttls).
 * @param wrapTtl seconds; 0 = the answer is not wrapped
 */
export function wrapTtlRefusal(bounds: WrapBounds | null, wrapTtl: number): Refusal | null {
  if (bounds === null || (wrapTtl > 0 && wrapTtl >= bounds.least && wrapTtl <= bounds.most)) return null;
  const from = bounds.least > 0 ? ` from ${bounds.least} s` : "";
  const to = Number.isFinite(bounds.most) ? ` to ${bounds.most} s` : "";
  return refuse("denied", `permission denied: a policy allows only wrapped answers here, with a TTL${from}${to}`);
}

function boundsOf({ minWrappingTtl = 0, maxWrappingTtl = 0 }: Partial<PathRule> = {}): WrapBounds | null {
  if (minWrappingTtl === 0 && maxWrappingTtl === 0) return null;
  return { least: minWrappingTtl, most: maxWrappingTtl || Number.POSITIVE_INFINITY };
}

function constraintsOf(rule: PathRule | undefined): ParameterConstraints | null {
  const { allowedParameters, deniedParameters, requiredParameters, paginationLimit } = rule ?? {};
  return allowedParameters || deniedParameters || requiredParameters || paginationLimit ? { ...rule } : null;
}

/** The path to evaluate. Routes ignore a trailing slash, so a rule about the path without it applies as well. */
function unslashed(acl: PathAcl, path: string): string {
  const bare = path.slice(0, -1);
  return path.endsWith("/") && ruleFor(acl, bare) ? bare : path;
}

/** The segments of a path, in its namespace, that are a name without case; null for none. */
export const caselessSegments = (paths: PathResolver, at: Located): CaselessSegments | null =>
  caselessInAuth(at.path, () => paths.authMountAt(at)) ?? caselessIn(at.path, () => paths.mountAt(at));

/** Paths that end with the name of a policy, which may have slashes, or of an entity or a group. */
const NAMED = /^(?:sys\/(?:policies\/acl|policy)|identity\/(?:entity|group)\/name)\/[^/]/;
const ROLE = /\/(creds|roles)\/[^/]+\/?$/;

/** @param mountOf the mount that contains the path */
function caselessIn(path: string, mountOf: () => Mount | null): CaselessSegments | null {
  const [folder] = NAMED.exec(path) ?? [];
  if (folder !== undefined) return { first: folder.split("/").length - 1, count: Number.POSITIVE_INFINITY };
  if (!ROLE.test(path)) return null;
  const mount = mountOf();
  const inside = path.slice(mount?.path.length ?? 0).replace(/\/$/, "");
  if (!mount || !isCaseless(mount) || inside.split("/").length !== 2) return null;
  return { first: path.replace(/\/$/, "").split("/").length - 1, count: 1 };
}

/** Paths in auth mounts that name a user or a role, which are stored by lower-case names. */
const AUTH_ENTRY = /^(?:users|role|login)\/[^/]/;

/** Like `caselessIn`, for a path in an auth mount. @param placeOf the auth mount that contains the path */
function caselessInAuth(path: string, placeOf: () => AuthPlace | null): CaselessSegments | null {
  const place = path.startsWith("auth/") ? placeOf() : null;
  if (!place || !AUTH_ENTRY.test(place.path)) return null;
  return { first: path.slice(0, path.length - place.path.length).split("/").length, count: 1 };
}
