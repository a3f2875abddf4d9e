import type { AuthBlock, ClusterTokenBody, TokenBody, TokenRole } from "../../contracts/tokens.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { TokenMethods } from "../auth-methods/token-methods.ts";
import { expirationSeconds } from "../cluster-acl/cluster-acl.ts";
import type { Entities } from "../identity/entities.ts";
import type { PathEvaluator } from "../paths/path-evaluator.ts";
import type { PolicyStore } from "../policies/policy-store.ts";
import { batchProblem, isBatchRequest } from "./batch-tokens.ts";
import { boundNetworks, lesser, lesserOf, refusedAlias, rolePolicies, rulesPolicies } from "./role-rules.ts";
import {
  clusterPolicyNames,
  dedupe,
  displayName,
  expiryFor,
  isRoot,
  type NewToken,
  policiesOf,
  policyNames,
  type TokenLimits,
  type TokenRow,
} from "./token.ts";
import type { TokenStore } from "./token-store.ts";

/** Rules for creating, renewing and showing tokens. Owns no state; used by `SecretsTokens` and `ClusterTokens`. */
export class TokenRules {
  constructor(
    private readonly store: TokenStore,
    private readonly policies: PolicyStore,
    private readonly evaluator: PathEvaluator,
    private readonly entities: Entities,
    private readonly methods: TokenMethods,
  ) {}

  /**
   * Checks a request for a child of `parent`.
   * @param namespace the token's namespace
   * @param path the request's path; `sudo` on it permits more
   * @param kind whether the token is an orphan by its path, and its role
   * @returns the token to store
   */
  draft(
    parent: TokenRow,
    namespace: string,
    path: string,
    request: TokenBody,
    kind: { readonly orphan: boolean; readonly role: TokenRole | null },
    now: number,
  ): Result<{ secret: string; token: NewToken; warnings: string[] }> {
    const { role } = kind;
    const root = isRoot(parent);
    const named = [...policiesOf(parent), ...this.#identityPolicies(parent)];
    const subject = () => this.entities.templateSubject(parent.entity_id, parent.namespace);
    const grants = this.policies.grants(parent.namespace, named, subject);
    const sudo = root || this.evaluator.evaluate(grants, { namespace, path }, false).capabilities.includes("sudo");
    if (parent.uses !== 0) return refuse("invalid", "restricted use token cannot generate child tokens");
    if (request.id !== undefined && request.id !== "") {
      // Ids are unique across namespaces: elsewhere, "duplicate" would reveal a token of another namespace.
      if (namespace !== "")
        return refuse("invalid", "id: tokens get ids of their callers' choice in the root namespace only");
      if (!sudo) return refuse("invalid", "root or sudo privileges required to specify token id");
      if (/[.\s\p{Cc}]/u.test(request.id)) {
        return refuse("invalid", "id: must not hold a dot, spaces or control characters");
      }
      if (this.store.exists(this.store.hashOf(request.id)))
        return refuse("invalid", "cannot create a token with a duplicate ID");
    }
    if (request.no_parent && !sudo) return refuse("invalid", "root or sudo privileges required to create orphan token");
    if (request.period && !sudo) return refuse("invalid", "root or sudo privileges required to create periodic token");
    if (request.entity_alias) {
      const refused = refusedAlias(request.entity_alias, role);
      if (refused) return refused;
    }
    const policies = this.#draftPolicies(parent, namespace, request, sudo, role);
    if (!policies.ok) return policies;
    const isBatch = isBatchRequest(request, role);
    const problem = isBatch ? batchProblem(request, role, policies.value) : null;
    if (problem !== null) return refuse("invalid", problem);
    const makesRoot = policies.value.includes("root");
    const warnings: string[] = [];
    const explicitMaxTtl = lesser("Explicit max TTL", request.explicit_max_ttl, role?.token_explicit_max_ttl, warnings);
    const period = lesser("Period", request.period, role?.token_period, warnings);
    const ttl = request.ttl || request.lease || 0;
    const { default_lease_ttl: usual, max_lease_ttl: maxTtl } = this.methods.limits(namespace);
    const limit = { created: now, ttl: usual, maxTtl, explicitMaxTtl, period, root: makesRoot };
    const { expires, warnings: capped } = expiryFor(limit, ttl, now);
    // It would outlive its parent, or promise to.
    if (expires === null && parent.expires !== null)
      return refuse("invalid", "expiring root tokens cannot create non-expiring root tokens");
    const isOrphan = role ? role.orphan : kind.orphan || request.no_parent === true;
    if (role && !role.orphan && request.no_parent) warnings.push("no_parent is ignored: the role decides");
    for (const name of policies.value) {
      if (name !== "root" && !this.policies.find(namespace, name)) warnings.push(`Policy "${name}" does not exist`);
    }
    if (ttl > 0 || period > 0) warnings.push(...capped);
    return ok({
      secret: request.id || `hvs.${randomText(24)}`,
      warnings,
      token: {
        parent: isOrphan ? null : parent.hash,
        namespace,
        policies: JSON.stringify(policies.value),
        name: displayName(request.display_name),
        meta: request.meta && Object.keys(request.meta).length > 0 ? JSON.stringify(request.meta) : null,
        path: role?.path_suffix ? `${path}/${role.path_suffix}` : path,
        family: isBatch ? "batch" : "secrets",
        created: now,
        expires,
        ttl: expires === null ? 0 : Math.round((expires - now) / 1000),
        explicit_max_ttl: explicitMaxTtl,
        period,
        uses: lesserOf(request.num_uses, role?.token_num_uses ?? 0),
        orphan: isOrphan ? 1 : 0,
        renewable: request.renewable && role?.renewable !== false && expires !== null && !isBatch ? 1 : 0,
        entity_id: isOrphan ? "" : parent.entity_id,
        bound_cidrs: expires === null ? null : boundNetworks(role, isOrphan ? null : parent),
        role: role?.name ?? null,
      },
    });
  }

  /** The entity of an alias at the token method of a namespace, created with it. Runs inside a transaction. */
  entityOfAlias(namespace: string, alias: string, now: number): Result<string> {
    const mount = this.methods.get(namespace).accessor;
    const caller = { namespace, mount, name: alias, metadata: {}, roleMetadata: {}, groups: [] };
    const entity = this.entities.signIn(caller, now);
    return entity.ok ? ok(entity.value.id) : entity;
  }

  /** Checks a token of the cluster API. @param roles ids of its roles @returns the token to store */
  draftCluster(request: ClusterTokenBody, roles: readonly string[], path: string, now: number): Result<NewToken> {
    const policies = this.clusterPolicies(request, roles);
    if (!policies.ok) return policies;
    const seconds = expirationSeconds(request.ExpirationTTL, request.ExpirationTime, now);
    if (seconds === null) {
      return refuse("invalid", "token 0 invalid: ExpirationTime must be a time to come");
    }
    if (seconds !== 0 && (seconds < 60 || seconds > 86_400)) {
      return refuse("invalid", "token 0 invalid: expiration must be between 1m0s and 24h0m0s from now");
    }
    return ok({
      policies: JSON.stringify(policies.value),
      roles: roleColumn(roles),
      name: request.Name,
      path,
      family: "cluster",
      global: request.Global ? 1 : 0,
      created: now,
      expires: seconds === 0 ? null : now + seconds * 1000,
      ttl: seconds,
    });
  }

  /** The policies of a token of the cluster API, checked together with the ids of its roles. */
  clusterPolicies(request: ClusterTokenBody, roles: readonly string[]): Result<string[]> {
    const names = clusterPolicyNames(request.Policies ?? []);
    if (!names.ok) return refuse("invalid", `token 0 invalid: ${names.message}`);
    const named = names.value;
    if (request.Type !== "client" && request.Type !== "management") {
      return refuse("invalid", "token 0 invalid: token type must be client or management");
    }
    if (request.Type === "management") {
      return named.length > 0 || roles.length > 0
        ? refuse("invalid", "token 0 invalid: management token cannot be associated with policies or roles")
        : ok(["root"]);
    }
    if (named.length === 0 && roles.length === 0)
      return refuse("invalid", "token 0 invalid: client token missing policies or roles");
    if (named.includes("root")) return refuse("invalid", "token 0 invalid: policy root belongs to management tokens");
    return ok(named);
  }

  /**
   * Extends a token's expiry. Refused, as upstream, when the limits as they are now have passed; the token then ends at
   * its own expiry.
   * @param limits that differ from the token's own, as they are now
   * @param increment in seconds, 0 = the token's own TTL
   */
  renew(
    row: TokenRow,
    limits: Partial<TokenLimits>,
    increment: number,
    now: number,
  ): Result<{ row: TokenRow; warnings: string[] }> {
    if (row.renewable === 0 || row.uses < 0) return refuse("invalid", "lease is not renewable");
    const limit = {
      created: row.created,
      ttl: row.ttl,
      maxTtl: row.max_ttl,
      explicitMaxTtl: row.explicit_max_ttl,
      period: row.period,
      root: false,
      ...limits,
    };
    const { expires, warnings } = expiryFor(limit, increment, now);
    if (expires !== null && expires <= now) return refuse("invalid", "past the max TTL, cannot renew");
    return ok({ row: { ...row, expires, renewed: now }, warnings });
  }

  authBlock(row: TokenRow, secret: string, now: number): AuthBlock {
    const policies = policiesOf(row);
    const identityPolicies = this.#identityPolicies(row);
    return {
      client_token: secret,
      accessor: accessorOf(row),
      policies: dedupe([...policies, ...identityPolicies]).sort(),
      token_policies: policies,
      identity_policies: identityPolicies.length > 0 ? identityPolicies : null,
      metadata: row.meta === null ? null : (JSON.parse(row.meta) as Record<string, string>),
      orphan: row.orphan === 1,
      entity_id: row.entity_id,
      lease_duration: secondsLeft(row, now),
      renewable: row.renewable === 1,
      mfa_requirement: null,
      num_uses: Math.max(0, row.uses),
      token_type: row.family === "batch" ? "batch" : "service",
    };
  }

  /** The `data` of a lookup (docs/internals/wire/vault.md). `secret` is empty for a lookup by accessor. */
  view(row: TokenRow, secret: string, now: number): Record<string, unknown> {
    const identityPolicies = this.#identityPolicies(row);
    return {
      accessor: accessorOf(row),
      creation_time: Math.floor(row.created / 1000),
      creation_ttl: row.ttl,
      display_name: row.name,
      entity_id: row.entity_id,
      expire_time: row.expires === null ? null : new Date(row.expires).toISOString(),
      explicit_max_ttl: row.explicit_max_ttl,
      id: secret,
      issue_time: new Date(row.created).toISOString(),
      ...(row.renewed !== null && {
        last_renewal: new Date(row.renewed).toISOString(),
        last_renewal_time: Math.floor(row.renewed / 1000),
      }),
      meta: row.meta === null ? null : JSON.parse(row.meta),
      namespace_path: row.namespace,
      num_uses: Math.max(0, row.uses),
      orphan: row.orphan === 1,
      path: row.path,
      ...(row.period > 0 && { period: row.period }),
      policies: policiesOf(row),
      ...(row.role !== null && { role: row.role }),
      ...(identityPolicies.length > 0 && { identity_policies: identityPolicies }),
      ...(row.bound_cidrs !== null && { bound_cidrs: JSON.parse(row.bound_cidrs) }),
      renewable: row.renewable === 1,
      ttl: secondsLeft(row, now),
      type: row.family === "batch" ? "batch" : "service",
    };
  }

  #identityPolicies(row: TokenRow): string[] {
    return row.entity_id === "" ? [] : this.entities.policiesOf(row.entity_id, row.namespace);
  }

  #draftPolicies(
    parent: TokenRow,
    namespace: string,
    request: TokenBody,
    sudo: boolean,
    role: TokenRole | null,
  ): Result<string[]> {
    const own = policiesOf(parent);
    const names = policyNames(request.policies ?? []);
    if (!names.ok) return names;
    const asked = names.value;
    const lacksRoot = (of: readonly string[]) => of.includes("root") && (!own.includes("root") || namespace !== "");
    if (lacksRoot(asked)) return rootNeedsRoot();
    const noDefault = request.no_default_policy === true || role?.token_no_default_policy === true;
    const inheritable = own.filter((name) => name !== "root" || namespace === "");
    if (role && rulesPolicies(role)) {
      if (!sudo && parent.namespace !== namespace) return sudoForChildNamespace();
      const ruled = rolePolicies(role, asked, inheritable, noDefault);
      if (!ruled.ok) return ruled;
      if (lacksRoot(ruled.value)) return rootNeedsRoot();
      return noDefault ? ok(ruled.value.filter((name) => name !== "default")) : ruled;
    }
    // Without a list the child inherits its parent's policies; root only in the root namespace. A list of blanks names
    // none.
    const inherits = (request.policies ?? []).length === 0;
    const policies = inherits ? inheritable : asked;
    if (!sudo) {
      const foreign = policies.find((name) => !own.includes(name));
      if (foreign !== undefined || parent.namespace !== namespace) return childMustBeSubset();
    }
    if (noDefault) return ok(dedupe(policies.filter((name) => name !== "default")).sort());
    const withDefault = !policies.includes("root") && (sudo || own.includes("default"));
    return ok(dedupe(withDefault ? [...policies, "default"] : policies).sort());
  }
}

/** The column of a token's roles. */
export const roleColumn = (ids: readonly string[]): string | null => (ids.length > 0 ? JSON.stringify(ids) : null);

/** The accessor as answers show it: batch tokens have none. */
const accessorOf = (row: TokenRow): string => (row.family === "batch" ? "" : row.accessor);

const sudoForChildNamespace = (): Refusal =>
  refuse("invalid", "root or sudo privileges required to directly generate a token in a child namespace");
const rootNeedsRoot = (): Refusal =>
  refuse("invalid", "root tokens may not be created without parent token being root");
const childMustBeSubset = (): Refusal => refuse("invalid", "child policies must be subset of parent");
const secondsLeft = (row: TokenRow, now: number): number =>
  row.expires === null ? 0 : Math.max(1, Math.round((row.expires - now) / 1000));
