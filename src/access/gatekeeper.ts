import { ok, type Refusal, type Result, refuse } from "../result.ts";
import type { Ask, Grant } from "./authorize.ts";
import type { MountTable } from "./mounts.ts";
import { isRootOnly, type NamespaceTree, namespaceMissing, namespacePath } from "./namespaces.ts";
import { capabilitiesFor, ruleFor } from "./path-rules.ts";
import type { Grants } from "./policy-store.ts";
import { policiesOf, type TokenRow } from "./token.ts";
import type { TokenStore } from "./token-store.ts";
import type { Tokens } from "./tokens.ts";
import { inOneSpelling } from "./two-names.ts";

/** Answers every request's first question: who calls, what they may do there, and which mount it is about. */
export class Gatekeeper {
  readonly #store: TokenStore;
  readonly #tokens: Tokens;
  readonly #namespaces: NamespaceTree;
  readonly #mounts: MountTable;
  readonly #grantsOf: (row: TokenRow) => Grants;

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
    const now = Date.now();
    if (ask.token === null) return refuse("denied", "permission denied");
    const row = this.#store.find(ask.token, now);
    if (!row) return refuse("denied", "permission denied: invalid token");
    if (row.uses > 0) this.#tokens.spend(row, now);
    const asked = namespacePath(ask.namespace);
    if (!asked.ok) return asked;
    const at = this.#namespaces.split(asked.value, ask.path ?? "");
    // First, so that a token learns nothing about namespaces outside its own.
    if (!at.namespace.startsWith(row.namespace)) return refuse("denied", "permission denied");
    if (!this.#namespaces.has(asked.value)) return namespaceMissing(asked.value);
    if (at.namespace !== "" && isRootOnly(at.path)) return refuse("invalid", "operation unavailable in namespaces");
    const grants = this.#grantsOf(row);
    const { acl, path } = inOneSpelling(grants.paths, at.namespace, at.path);
    const options = { list: ask.list === true };
    const rule = grants.root ? undefined : ruleFor(acl, path, options);
    const { allowedParameters, deniedParameters, requiredParameters } = rule ?? {};
    return {
      ok: true,
      identity: {
        accessor: row.accessor,
        name: row.name,
        policies: policiesOf(row),
        namespace: row.namespace,
        root: grants.root,
      },
      namespace: at.namespace,
      path: at.path,
      capabilities: grants.root ? ["root"] : capabilitiesFor(acl, path, options),
      constraints: allowedParameters || deniedParameters || requiredParameters ? { ...rule } : null,
      mount: ask.path === null ? null : this.#mounts.resolve(at.namespace, at.path),
      cluster: grants.cluster,
      cacheable: row.uses === 0,
    };
  }
}
