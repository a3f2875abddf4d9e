import type { AuthorizeRequest, Grant } from "../../contracts/access-control.ts";
import { type ClusterRights, NO_CLUSTER_RULES } from "../../contracts/cluster-rights.ts";
import { ANONYMOUS } from "../../contracts/tokens.ts";
import { Lru } from "../../lib/lru.ts";
import { isWithinNetworks } from "../../lib/networks.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { Identity } from "../../platform/http/exchange.ts";
import { compilePaths } from "../../rights/path-rules.ts";
import { isRootOnly, namespaceMissing, namespacePath } from "../namespaces/namespaces.ts";
import { type PathEvaluator, wrapTtlRefusal } from "../paths/path-evaluator.ts";
import type { PathResolver } from "../paths/path-resolver.ts";
import type { Grants } from "../policies/policy-store.ts";
import type { SecretsTokens } from "../tokens/secrets-tokens.ts";
import { isWrapping, policiesOf, type TokenRow } from "../tokens/token.ts";
import type { TokenHolders } from "../tokens/token-holders.ts";
import type { TokenStore } from "../tokens/token-store.ts";

/** An answer, and what a kept copy of it depends on beside the rules. */
export interface Explained {
  readonly answer: Grant | Refusal;
  /** The token that a change names: the caller's, or the parent of a batch token. */
  readonly tag: string;
  /** Expiry of the token, ms since 1970; null for never. */
  readonly expires: number | null;
  /** Whether there is no such token. */
  readonly unknown: boolean;
  /** Whether the token has limited uses. */
  readonly counted: boolean;
}

/** The identity of a token, and the rights of its policies. */
interface Caller {
  /** See `Explained`. */
  readonly tag: string;
  readonly identity: Identity;
  readonly grants: Grants;
  /** Expiry of the token, ms since 1970; null for never. */
  readonly expires: number | null;
  /** Whether the token has limited uses, each of which is counted. */
  readonly counted: boolean;
  /** Whether it is a wrapping token. */
  readonly wrapping: boolean;
  /** Networks that the token may be used from; empty for all. */
  readonly networks: readonly string[];
}

const MAX_CALLERS = 20_000;
const MAX_BATCH_CALLERS = 1_000;
const NO_CLUSTER_RIGHTS: ClusterRights = { ...NO_CLUSTER_RULES, management: false };

const NO_PATHS = compilePaths([]);
/** The caller of a request of the cluster API without a token. */
const NOBODY = { accessor: ANONYMOUS, name: "Anonymous Token", policies: [ANONYMOUS], namespace: "", root: false };

/** The only path of a wrapping token that needs authorization; `sys/wrapping` authorizes it by possession. */
const WRAPPED_PATH = "cubbyhole/response";

/** Paths about the caller's own token. They always apply to the token's own namespace. */
const OWN_TOKEN = /^auth\/token\/(?:lookup|renew|revoke)-self\/?$/;
/** Paths about a token in the request's body, which determines the namespace: see `SecretsTokens`. */
const NAMED_TOKEN = /^auth\/token\/(?:lookup|renew|revoke|revoke-orphan)\/?$/;

/**
 * Authorizes every request: resolves the token, the namespace and the mount, and evaluates the path rules. Callers are
 * cached until a commit changes their token or everything, so an authorized request costs no read of rows; a limited
 * token costs one write.
 */
export class Authorizer {
  /** Callers by token hash. */
  readonly #callers = new Lru<string, Caller>(MAX_CALLERS);
  /** Callers with batch tokens, which a change of their parent ends. */
  readonly #batchCallers = new Lru<string, Caller>(MAX_BATCH_CALLERS);

  constructor(
    private readonly store: TokenStore,
    private readonly tokens: SecretsTokens,
    private readonly paths: PathResolver,
    private readonly evaluator: PathEvaluator,
    private readonly holders: TokenHolders,
  ) {}

  /** Drops the cached callers of changed tokens. @param keys hashes of tokens; null for a change of everything */
  forget(keys: readonly string[] | null): void {
    this.#batchCallers.clear();
    if (keys === null) this.#callers.clear();
    else for (const hash of keys) this.#callers.delete(hash);
  }

  /** Splits a path that needs no token into the deepest namespace that leads it, and the rest. */
  locate(namespace: string, path: string): Result<{ namespace: string; path: string }> {
    const asked = namespacePath(namespace);
    if (!asked.ok) return asked;
    return this.paths.hasNamespace(asked.value)
      ? ok(this.paths.split(asked.value, path))
      : namespaceMissing(asked.value);
  }

  /** Authorizes a request. A use of a limited token is counted even if the request is refused. @throws Sealed */
  explain(ask: AuthorizeRequest): Explained {
    const { token } = ask;
    if (token === null) return this.#explainWithoutToken(ask);
    const caller = this.#caller(token, Date.now(), ask.again === true);
    const { tag = this.store.hashOf(token), expires = null, counted = false } = caller ?? {};
    return { answer: this.#decide(ask, caller), tag, expires, unknown: caller === null, counted };
  }

  /** Requests of the secrets API have no right without a token, those of the cluster API the rights of a policy. */
  #explainWithoutToken(ask: AuthorizeRequest): Explained {
    const cluster = this.holders.anonymousRights();
    const fixed = { tag: "", expires: null, counted: false };
    if (cluster === null || ask.path !== null) {
      return { ...fixed, answer: refuse("denied", "permission denied"), unknown: cluster === null };
    }
    const grants = { root: false, paths: NO_PATHS, cluster };
    const caller = { ...fixed, identity: NOBODY, grants, networks: [], wrapping: false };
    return { ...fixed, answer: this.#decide(ask, caller), unknown: false };
  }

  #decide(ask: AuthorizeRequest, caller: Caller | null): Grant | Refusal {
    if (!caller) return refuse("denied", "permission denied: invalid token");
    const { identity, grants, networks } = caller;
    if (!isWithinNetworks(ask.address ?? null, networks)) return refuse("denied", "permission denied");
    const asked = namespacePath(ask.namespace);
    if (!asked.ok) return asked;
    const meant = this.paths.split(asked.value, ask.path ?? "");
    if (caller.wrapping && meant.path !== WRAPPED_PATH) return refuse("denied", "permission denied");
    const isWithin = meant.namespace.startsWith(identity.namespace);
    const goesHome = OWN_TOKEN.test(meant.path) || (!isWithin && NAMED_TOKEN.test(meant.path));
    // Checked first, so that a token reveals nothing about namespaces outside its own.
    if (!isWithin && !goesHome) return refuse("denied", "permission denied");
    if (isWithin && !this.paths.hasNamespace(asked.value)) return namespaceMissing(asked.value);
    const at = goesHome ? { namespace: identity.namespace, path: meant.path } : meant;
    if (at.namespace !== "" && isRootOnly(at.path)) return refuse("invalid", "operation unavailable in namespaces");
    const namespaceId = this.paths.namespaceId(at.namespace);
    const { capabilities, constraints, wrapBounds } = this.evaluator.evaluate(grants, at, ask.list === true);
    // Requests of the cluster API have no path, so that no constraint of a path rule is about them.
    const unwrapped = ask.path === null ? null : wrapTtlRefusal(wrapBounds, ask.wrapTtl ?? 0);
    if (unwrapped) return unwrapped;
    return {
      ok: true,
      identity,
      namespace: at.namespace,
      namespaceId,
      path: at.path,
      capabilities,
      ...(ask.path === null
        ? { constraints: null, mount: null, cluster: grants.cluster }
        : { constraints, mount: this.paths.mountAt(at), cluster: NO_CLUSTER_RIGHTS }),
      cacheable: !caller.counted && networks.length === 0,
    };
  }

  /** @param again whether the request has been counted, perhaps as the last use of the token */
  #caller(token: string, now: number, again: boolean): Caller | null {
    const hash = this.store.hashOf(token);
    const known = this.#callers.get(hash) ?? this.#batchCallers.get(hash);
    // The end of a cached one may be its parent's, which can have been renewed since.
    if (known && (known.expires === null || known.expires > now)) return known;
    const row = this.store.find(token, now, again);
    if (!row || !this.holders.isEntityActive(row)) return null;
    const counted = row.uses !== 0;
    const wrapping = isWrapping(row);
    // Only opening the wrapped answer uses a wrapping token up.
    if (counted && !wrapping && !again) this.tokens.spend(row, now);
    const grants = this.holders.grantsOf(row);
    const { accessor, name, namespace } = row;
    const expires = this.store.endOf(row);
    const roles = this.holders.rolesOf(row);
    const identity = {
      accessor,
      name,
      policies: [...policiesOf(row), ...roles.policies],
      namespace,
      root: grants.root,
      ...(row.entity_id !== "" && { entity: row.entity_id }),
      ...(roles.links.length > 0 && { roles: roles.links }),
      ...(row.family === "batch" && { batch: { parent: row.parent, expires } }),
    };
    const networks = row.bound_cidrs === null ? [] : (JSON.parse(row.bound_cidrs) as string[]);
    const caller = { tag: this.#tagOf(row, now), identity, grants, expires, counted, networks, wrapping };
    if (!counted) (row.family === "batch" ? this.#batchCallers : this.#callers).set(hash, caller);
    return caller;
  }

  /** A batch token has no row: it ends with its parent, or with its namespace or its auth mount. */
  #tagOf(row: TokenRow, now: number): string {
    if (row.family !== "batch") return row.hash;
    return row.parent === null ? "" : (this.store.byAccessor(row.parent, now)?.hash ?? "");
  }
}
