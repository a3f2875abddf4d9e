import { note } from "../audit/actions.ts";
import { ok, type Result, refuse } from "../result.ts";
import { tokenDeleted, tokenUpserted } from "./cluster-acl.ts";
import type { Journal } from "./journal.ts";
import { type NamespaceTree, namespaceMissing } from "./namespaces.ts";
import { type Capability, capabilitiesFor } from "./path-rules.ts";
import type { Grants } from "./policy-store.ts";
import type { TokenRequest, TokenRow } from "./token.ts";
import type { AuthBlock, TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";
import { inOneSpelling } from "./two-names.ts";

/**
 * How a request names a token: the caller's own, by its text or by the accessor that `authorize` answered, or another, which
 * must live in the namespace `within` or below.
 */
export type TokenName =
  | { own: string }
  | { accessor: string; within?: undefined }
  | { token: string; within: string }
  | { accessor: string; within: string };

export type Authed = { auth: AuthBlock; warnings: readonly string[] };

/** How long a token outlives the start of its last request, which may still ask about it. */
const LAST_REQUEST_MS = 10_000;

/** Tokens: made, looked up, renewed and revoked as areas A and B do it. */
export class Tokens {
  readonly #store: TokenStore;
  readonly #rules: TokenRules;
  readonly #namespaces: NamespaceTree;
  readonly #journal: Journal;
  readonly #grantsOf: (row: TokenRow) => Grants;

  constructor(
    store: TokenStore,
    rules: TokenRules,
    namespaces: NamespaceTree,
    journal: Journal,
    grantsOf: (row: TokenRow) => Grants,
  ) {
    this.#store = store;
    this.#rules = rules;
    this.#namespaces = namespaces;
    this.#journal = journal;
    this.#grantsOf = grantsOf;
  }

  /** Counts one use of a token that has only so many. */
  spend(row: TokenRow, now: number): void {
    this.#journal.commit(() => this.#store.spend(row, now + LAST_REQUEST_MS));
  }

  /** @throws Sealed */
  create(caller: string, namespace: string, path: string, request: TokenRequest, orphan: boolean): Result<Authed> {
    const now = Date.now();
    const parent = this.#store.byAccessor(caller, now, true);
    if (!parent) return refuse("denied", "permission denied");
    if (!this.#namespaces.has(namespace)) return namespaceMissing(namespace);
    const draft = this.#rules.draft(parent, namespace, path, request, orphan, now);
    if (!draft.ok) return draft;
    const { secret, token, warnings } = draft.value;
    const row = this.#journal.commit(() => {
      const inserted = this.#store.insert(secret, token);
      this.#journal.emit([tokenUpserted(inserted)], [{ token: inserted.accessor }]);
      return inserted;
    });
    return ok({ auth: this.#rules.authBlock(row, secret, now), warnings });
  }

  /** @throws Sealed */
  lookup(name: TokenName): Result<Record<string, unknown>> {
    const row = this.#named(name);
    return row.ok ? ok(this.#rules.view(row.value, textIn(name), Date.now())) : row;
  }

  /** @throws Sealed */
  renew(name: TokenName, increment: number): Result<Authed> {
    const now = Date.now();
    const row = this.#named(name);
    if (!row.ok) return "accessor" in name ? row : refuse("invalid", "token not found");
    const renewed = this.#rules.renew(row.value, increment, now);
    if (!renewed.ok) return renewed;
    const { row: next, warnings } = renewed.value;
    this.#journal.commit(() => {
      this.#store.update(next);
      this.#journal.emit([tokenUpserted(next)], [{ token: next.accessor }]);
    });
    return ok({ auth: this.#rules.authBlock(next, textIn(name), now), warnings });
  }

  /** Ends a token at once, with all its descendants, or alone. An unknown token counts as revoked. @throws Sealed */
  revoke(name: TokenName, keepChildren: boolean): Result<null> {
    const row = this.#named(name);
    if (!row.ok) return "accessor" in name ? row : ok(null);
    this.#journal.commit(() => {
      if (keepChildren) this.#store.orphanChildren(row.value.hash);
      this.#end(row.value);
    });
    return ok(null);
  }

  /** Ends tokens whose time is over, up to `limit` of them, with all their descendants. */
  expire(now: number, limit: number): void {
    const expired = this.#store.expired(now, limit);
    if (expired.length > 0) {
      this.#journal.commit(() => {
        for (const row of expired) this.#end(row);
      });
      for (const { accessor } of expired) note("token-expired", { accessor });
    }
  }

  /** One page of the accessors of a namespace and those below. */
  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    const { rows, next } = this.#store.page(Date.now(), { from, limit, within });
    return { keys: rows.map(({ accessor }) => accessor), next };
  }

  /** What a token may do on each path of a namespace. @throws Sealed */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    const row = this.#named(name);
    if (!row.ok) return row;
    const { root, paths: rules } = this.#grantsOf(row.value);
    const of = (path: string): (Capability | "root")[] => {
      if (!(namespace + path).startsWith(row.value.namespace)) return ["deny"];
      if (root) return ["root"];
      const at = this.#namespaces.split(namespace, path);
      const asked = inOneSpelling(rules, at.namespace, at.path);
      return capabilitiesFor(asked.acl, asked.path, { list: path.endsWith("/") });
    };
    return ok(Object.fromEntries(paths.map((path) => [path, of(path)])));
  }

  /** Inside a transaction. */
  #end(row: TokenRow): void {
    const gone = this.#store.family(row.hash);
    this.#store.delete(gone);
    this.#journal.emit(gone.map(tokenDeleted));
  }

  #named(name: TokenName): Result<TokenRow> {
    const now = Date.now();
    if ("own" in name) {
      const row = this.#store.find(name.own, now, true);
      return row ? ok(row) : refuse("denied", "bad token");
    }
    const { within } = name;
    const row =
      "token" in name
        ? this.#store.find(name.token, now)
        : this.#store.byAccessor(name.accessor, now, within === undefined);
    if (row?.namespace.startsWith(within ?? "")) return ok(row);
    return "token" in name ? refuse("denied", "bad token") : refuse("invalid", "invalid accessor");
  }
}

const textIn = (name: TokenName): string => ("own" in name ? name.own : "token" in name ? name.token : "");
