import type { Capability } from "../contracts/policies.ts";
import {
  type Authed,
  type RightsCheck,
  TOO_LONG_BATCH_TOKEN,
  type TokenKind,
  type TokenName,
} from "../contracts/tokens.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { tokenMountAccessor } from "./auth-mounts.ts";
import { tokenDeleted, tokenUpserted } from "./cluster-acl.ts";
import type { Entities } from "./entities.ts";
import type { AccessPublisher } from "./event-publisher.ts";
import { type NamespaceTree, namespaceMissing } from "./namespaces.ts";
import { allows, type PathEvaluator } from "./path-evaluator.ts";
import type { Grants } from "./policy-store.ts";
import type { TokenLimits, TokenRequest, TokenRow } from "./token.ts";
import type { TokenRoles } from "./token-roles.ts";
import type { TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";
import { isWrapping } from "./wrappings.ts";

/** A token outlives the start of its last request by this time, because the request may still query it. */
const LAST_REQUEST_MS = 10_000;

/** Facts about the holder of a token. */
interface Holders {
  grantsOf(row: TokenRow): Grants;
  /** Limits for a renewal by the role or user that a token was issued for; null for tokens without one. */
  renewal(row: TokenRow): Result<TokenLimits | null>;
  readonly entities: Entities;
  readonly roles: TokenRoles;
}

/** Creates, looks up, renews and revokes tokens for the secrets API. Each change and its event are one transaction. */
export class SecretsTokens {
  readonly #store: TokenStore;
  readonly #rules: TokenRules;
  readonly #namespaces: NamespaceTree;
  readonly #publisher: AccessPublisher;
  readonly #evaluator: PathEvaluator;
  readonly #holders: Holders;

  constructor(
    store: TokenStore,
    rules: TokenRules,
    namespaces: NamespaceTree,
    publisher: AccessPublisher,
    evaluator: PathEvaluator,
    holders: Holders,
  ) {
    this.#store = store;
    this.#rules = rules;
    this.#namespaces = namespaces;
    this.#publisher = publisher;
    this.#evaluator = evaluator;
    this.#holders = holders;
  }

  /** Counts one use of a token with limited uses. */
  spend(row: TokenRow, now: number): void {
    this.#publisher.commit(() => this.#store.spend(row, now + LAST_REQUEST_MS));
  }

  /** @throws Sealed */
  create(caller: string, namespace: string, path: string, request: TokenRequest, kind: TokenKind): Result<Authed> {
    const now = Date.now();
    const parent = this.#store.byAccessor(caller, now, true);
    if (!parent) return refuse("denied", "permission denied");
    if (parent.family === "batch") return refuse("invalid", "batch tokens cannot create more tokens");
    if (!this.#namespaces.has(namespace)) return namespaceMissing(namespace);
    const role = kind.role === null ? null : this.#holders.roles.get(namespace, kind.role);
    if (kind.role !== null && !role) return refuse("invalid", `unknown role ${kind.role}`);
    const draft = this.#rules.draft(parent, namespace, path, request, { orphan: kind.orphan, role }, now);
    if (!draft.ok) return draft;
    const { secret, token, warnings } = draft.value;
    return this.#publisher.commit(() => {
      const entity = request.entity_alias
        ? this.#entityOf(namespace, request.entity_alias, now)
        : ok(token.entity_id as string);
      if (!entity.ok) return entity;
      const drafted = { ...token, entity_id: entity.value };
      if (token.family === "batch") {
        const sealed = this.#store.seal(drafted, token.parent === null ? null : parent.accessor, now);
        if (!sealed) return refuse("invalid", TOO_LONG_BATCH_TOKEN);
        return ok({ auth: this.#rules.authBlock(sealed.row, sealed.secret, now), warnings });
      }
      const row = this.#store.insert(secret, drafted);
      this.#publisher.emit([tokenUpserted(row)], [{ token: row.accessor }]);
      return ok({ auth: this.#rules.authBlock(row, secret, now), warnings });
    });
  }

  /** The entity of an alias at the token method of a namespace, created with it. Runs inside a transaction. */
  #entityOf(namespace: string, alias: string, now: number): Result<string> {
    const mount = tokenMountAccessor(this.#namespaces.idOf(namespace) ?? "");
    return this.#holders.entities.signIn({ namespace, mount, name: alias, metadata: {}, groups: [] }, now);
  }

  /** @throws Sealed */
  lookup(name: TokenName): Result<Record<string, unknown>> {
    const row = known(this.#named(name));
    return row.ok ? ok(this.#rules.view(row.value, textIn(name), Date.now())) : row;
  }

  /** @throws Sealed */
  renew(name: TokenName, increment: number): Result<Authed> {
    const now = Date.now();
    const row = this.#named(name);
    if (!row.ok) return row;
    if (row.value === null) return refuse("invalid", "token not found");
    if (row.value.family === "batch") return refuse("invalid", "batch tokens cannot be renewed");
    const login = this.#holders.renewal(row.value);
    if (!login.ok) return login;
    const { role } = row.value;
    const current = role === null ? null : this.#holders.roles.get(row.value.namespace, role);
    if (role !== null && !current) {
      return refuse("invalid", `original token role ${JSON.stringify(role)} could not be found, not renewing`);
    }
    const ofRole = current && { explicitMaxTtl: current.token_explicit_max_ttl, period: current.token_period };
    const renewed = this.#rules.renew(row.value, login.value ?? ofRole, increment, now);
    if (!renewed.ok) return renewed;
    const { row: next, warnings } = renewed.value;
    this.#publisher.commit(() => {
      this.#store.update(next);
      this.#publisher.emit([tokenUpserted(next)], [{ token: next.accessor }]);
    });
    return ok({ auth: this.#rules.authBlock(next, textIn(name), now), warnings });
  }

  /** Revokes a token, with or without its descendants. An unknown token counts as revoked. @throws Sealed */
  revoke(name: TokenName, keepChildren: boolean): Result<null> {
    const named = this.#named(name);
    if (!named.ok || named.value === null) return named.ok ? ok(null) : named;
    const row = named.value;
    if (row.family === "batch") return refuse("invalid", "batch tokens cannot be revoked");
    this.#publisher.commit(() => {
      if (keepChildren) this.#store.orphanChildren(row.hash);
      this.#end(row);
    });
    return ok(null);
  }

  /** Deletes up to `limit` expired tokens with all their descendants. */
  expire(now: number, limit: number): void {
    const expired = this.#store.expired(now, limit);
    if (expired.length > 0) {
      this.#publisher.commit(() => {
        for (const row of expired) this.#end(row);
      });
      for (const { accessor } of expired) recordAction("token-expired", { accessor });
    }
  }

  /** One page of the accessors of a namespace and its descendants. */
  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    const { rows, next } = this.#store.page(Date.now(), { from, limit, within });
    return { keys: rows.map(({ accessor }) => accessor), next };
  }

  /** The capabilities of a token on each path of a namespace. @throws Sealed */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    const row = known(this.#named(name));
    if (!row.ok) return row;
    const grants = this.#holders.grantsOf(row.value);
    const of = (path: string): readonly (Capability | "root")[] =>
      (namespace + path).startsWith(row.value.namespace)
        ? this.#evaluator.capabilities(grants, namespace, path)
        : ["deny"];
    return ok(Object.fromEntries(paths.map((path) => [path, [...of(path)]])));
  }

  /** Whether a caller has further rights than its request was authorized for. Counts no use of the token. */
  mayAlso(check: RightsCheck): Result<null> {
    const caller = this.#store.byAccessor(check.accessor, Date.now(), true);
    return caller ? this.#allowed(caller, check).result : refuse("denied", "permission denied");
  }

  #allowed(caller: TokenRow, requested: RightsCheck): { readonly result: Result<null>; readonly ruled: boolean } {
    if (!requested.namespace.startsWith(caller.namespace)) {
      return { result: refuse("denied", "permission denied"), ruled: true };
    }
    const decision = this.#evaluator.evaluate(this.#holders.grantsOf(caller), requested, false);
    return {
      result: allows(decision, requested.needs, requested.given, requested.wrapTtl ?? 0),
      ruled: decision.ruled,
    };
  }

  /** Deletes a token with its descendants. Runs inside a transaction. */
  #end(row: TokenRow): void {
    const gone = this.#store.family(row.hash);
    this.#store.delete(gone);
    // Wrapping tokens send no events: they are part of an answer.
    this.#publisher.emit(gone.filter((each) => !isWrapping(each)).map(tokenDeleted));
  }

  /** The token named by a request; null if no token has that text. */
  #named(name: TokenName): Result<TokenRow | null> {
    const now = Date.now();
    if ("own" in name) return ok(this.#store.find(name.own, now, true));
    if ("by" in name) return this.#followed(name.token, name.by, now);
    const { within = "" } = name;
    if ("token" in name) {
      const row = this.#store.find(name.token, now);
      return ok(row?.namespace.startsWith(within) ? row : null);
    }
    const row = this.#store.byAccessor(name.accessor, now, name.within === undefined);
    // Batch tokens have no accessor that requests could name.
    if (row?.family === "batch" && name.within !== undefined) return refuse("invalid", "invalid accessor");
    return row?.namespace.startsWith(within) ? ok(row) : refuse("invalid", "invalid accessor");
  }

  /**
   * The token of a text, for a caller with the right in that token's namespace. A right in the namespace of the request
   * extends to tokens below it, unless a rule about their namespace differs. Without a right, a token appears to be
   * unknown.
   */
  #followed(text: string, by: RightsCheck, now: number): Result<TokenRow | null> {
    const caller = this.#store.byAccessor(by.accessor, now, true);
    if (!caller) return refuse("denied", "permission denied");
    const here = this.#allowed(caller, by);
    const row = this.#store.find(text, now, true);
    // A token after its last use is visible only to the request that was this use.
    if (!row || (row.uses < 0 && row.hash !== caller.hash)) return here.result.ok ? ok(null) : here.result;
    const there = this.#allowed(caller, { ...by, namespace: row.namespace });
    if (there.result.ok) return ok(row);
    if (!here.result.ok) return here.result;
    if (!row.namespace.startsWith(by.namespace)) return ok(null);
    return there.ruled ? there.result : ok(row);
  }
}

/** The token, or 403 for an unknown one. */
const known = (named: Result<TokenRow | null>): Result<TokenRow> =>
  named.ok ? (named.value === null ? refuse("denied", "bad token") : ok(named.value)) : named;

const textIn = (name: TokenName): string => ("own" in name ? name.own : "token" in name ? name.token : "");
