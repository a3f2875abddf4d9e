import { ok, type Refusal, type Result, refuse } from "../result.ts";
import type { Ask, Grant, Identity } from "./authorize.ts";
import { type ClusterRights, NO_CLUSTER_RULES } from "./cluster-rights.ts";
import type { Mount, MountTable } from "./mounts.ts";
import { isRootOnly, type NamespaceTree, namespaceMissing, namespacePath } from "./namespaces.ts";
import { granted, type PathAcl, ruleFor } from "./path-rules.ts";
import type { Grants } from "./policy-store.ts";
import { policiesOf, type TokenRow } from "./token.ts";
import type { TokenStore } from "./token-store.ts";
import type { Tokens } from "./tokens.ts";
import { inOneSpelling } from "./two-names.ts";

/** Who a token stands for, and what its policies come to. */
interface Caller {
  readonly identity: Identity;
  readonly grants: Grants;
  /** When the token ends (ms since 1970), null = never. */
  readonly expires: number | null;
  /** The token has only so many uses, each of which is counted. */
  readonly counted: boolean;
}

const MOST_KNOWN = 1_000;
const NO_CLUSTER_RIGHTS: ClusterRights = { ...NO_CLUSTER_RULES, management: false };

const WRAPPED_ONLY = "permission denied: a policy allows only wrapped answers here, and wrapping is not offered";

/** Answers every request's first question: who calls, what they may do there, and which mount it is about. */
export class Gatekeeper {
  readonly #store: TokenStore;
  readonly #tokens: Tokens;
  readonly #namespaces: NamespaceTree;
  readonly #mounts: MountTable;
  readonly #grantsOf: (row: TokenRow) => Grants;
  /** Callers by the hash of their tokens, as of the last change of anything in this object. */
  readonly #known = new Map<string, Caller>();

  constructor(
    store: TokenStore,
    tokens: Tokens,
    namespaces: NamespaceTree,
    mounts: MountTable,
    grantsOf: (row: TokenRow) => Grants,
  ) {
    this.#store = store;
    this.#tokens = tokens;
    this.#namespaces = namespaces;
    this.#mounts = mounts;
    this.#grantsOf = grantsOf;
  }

  /** Forgets who is known: tokens or policies may be others from now on. */
  forget(): void {
    this.#known.clear();
  }

  /** Where a path leads that is asked for without a token: the deepest namespace that leads it, and the rest. */
  locate(namespace: string, path: string): Result<{ namespace: string; path: string }> {
    const asked = namespacePath(namespace);
    if (!asked.ok) return asked;
    return this.#namespaces.has(asked.value)
      ? ok(this.#namespaces.split(asked.value, path))
      : namespaceMissing(asked.value);
  }

  /** Counts a use of a token that has only so many, whatever the answer. @throws Sealed */
  authorize(ask: Ask): Grant | Refusal {
    if (ask.token === null) return refuse("denied", "permission denied");
    const caller = this.#caller(ask.token, Date.now());
    if (!caller) return refuse("denied", "permission denied: invalid token");
    const { identity, grants } = caller;
    const asked = namespacePath(ask.namespace);
    if (!asked.ok) return asked;
    const at = this.#namespaces.split(asked.value, ask.path ?? "");
    // First, so that a token learns nothing about namespaces outside its own.
    if (!at.namespace.startsWith(identity.namespace)) return refuse("denied", "permission denied");
    if (!this.#namespaces.has(asked.value)) return namespaceMissing(asked.value);
    if (at.namespace !== "" && isRootOnly(at.path)) return refuse("invalid", "operation unavailable in namespaces");
    const { acl, path: written } = inOneSpelling(
      grants.paths,
      at.namespace,
      at.path,
      caselessIn(at.path, () => this.#mounts.resolve(at.namespace, at.path)),
    );
    const path = ask.list === true ? written : unslashed(acl, written);
    const rule = grants.root ? undefined : ruleFor(acl, path, { list: ask.list === true });
    if (rule?.minWrappingTtl || rule?.maxWrappingTtl) return refuse("denied", WRAPPED_ONLY);
    const { allowedParameters, deniedParameters, requiredParameters } = rule ?? {};
    return {
      ok: true,
      identity,
      namespace: at.namespace,
      path: at.path,
      capabilities: grants.root ? ["root"] : granted(rule),
      constraints: allowedParameters || deniedParameters || requiredParameters ? { ...rule } : null,
      ...(ask.path === null
        ? { mount: null, cluster: grants.cluster }
        : { mount: this.#mounts.resolve(at.namespace, at.path), cluster: NO_CLUSTER_RIGHTS }),
      cacheable: !caller.counted,
    };
  }

  #caller(token: string, now: number): Caller | null {
    const hash = this.#store.hashOf(token);
    const known = this.#known.get(hash);
    if (known) return known.expires === null || known.expires > now ? known : null;
    const row = this.#store.byHash(hash, now);
    if (!row) return null;
    const counted = row.uses > 0;
    if (counted) this.#tokens.spend(row, now);
    const grants = this.#grantsOf(row);
    const { accessor, name, namespace, expires } = row;
    const identity = { accessor, name, policies: policiesOf(row), namespace, root: grants.root };
    const caller = { identity, grants, expires, counted };
    if (!counted) this.#remember(hash, caller);
    return caller;
  }

  #remember(hash: string, caller: Caller): void {
    if (this.#known.size >= MOST_KNOWN) this.#known.clear();
    this.#known.set(hash, caller);
  }
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
