import type { Capability } from "../../contracts/policies.ts";
import type { RightsCheck, TokenName } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { allows, type PathEvaluator } from "../paths/path-evaluator.ts";
import type { Grants } from "../policies/policy-store.ts";
import type { TokenRow } from "./token.ts";
import type { TokenHolders } from "./token-holders.ts";
import type { TokenStore } from "./token-store.ts";

/** Rights of tokens beyond the path of one request, and the tokens that requests may name. */
export class TokenCapabilities {
  constructor(
    private readonly store: TokenStore,
    private readonly evaluator: PathEvaluator,
    private readonly holders: TokenHolders,
  ) {}

  /** The rules of a token; null when it is gone. */
  grants(accessor: string): Grants | null {
    return this.holders.viewer(accessor)?.grants ?? null;
  }

  /** The capabilities of a token on each path of a namespace. @throws Sealed */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>> {
    const named = this.named(name);
    if (named.ok && named.value === null && "token" in name) return refuse("invalid", "invalid token");
    const row = knownToken(named);
    if (!row.ok) return row;
    const grants = this.holders.grantsOf(row.value);
    const of = (path: string): readonly (Capability | "root")[] =>
      (namespace + path).startsWith(row.value.namespace)
        ? this.evaluator.capabilities(grants, namespace, path)
        : ["deny"];
    return ok(Object.fromEntries(paths.map((path) => [path, [...of(path)]])));
  }

  /** Whether a caller has further rights than its request was authorized for. Counts no use of the token. */
  mayAlso(check: RightsCheck): Result<null> {
    const caller = this.store.byAccessor(check.accessor, Date.now(), true);
    return caller ? this.#allowed(caller, check).result : refuse("denied", "permission denied");
  }

  #allowed(caller: TokenRow, requested: RightsCheck): { readonly result: Result<null>; readonly ruled: boolean } {
    if (!requested.namespace.startsWith(caller.namespace)) {
      return { result: refuse("denied", "permission denied"), ruled: true };
    }
    const grants = this.holders.grantsOf(caller);
    if (requested.below) {
      const isGranted = this.evaluator.grantsBelow(grants, requested, requested.needs);
      return { result: isGranted ? ok(null) : refuse("denied", "permission denied"), ruled: true };
    }
    const decision = this.evaluator.evaluate(grants, requested, false);
    return {
      result: allows(decision, requested.needs, requested.given, requested.wrapTtl ?? 0),
      ruled: decision.ruled,
    };
  }

  /** The token named by a request; null if no token has that text. */
  named(name: TokenName): Result<TokenRow | null> {
    const now = Date.now();
    if ("own" in name) return ok(this.store.find(name.own, now, true));
    if ("by" in name) return this.#followed(name.token, name.by, now);
    const { within = "" } = name;
    if ("token" in name) {
      const row = this.store.find(name.token, now);
      return ok(row?.namespace.startsWith(within) ? row : null);
    }
    const row = this.store.byAccessor(name.accessor, now, name.within === undefined);
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
    const caller = this.store.byAccessor(by.accessor, now, true);
    if (!caller) return refuse("denied", "permission denied");
    const here = this.#allowed(caller, by);
    const row = this.store.find(text, now, true);
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
export const knownToken = (named: Result<TokenRow | null>): Result<TokenRow> =>
  named.ok ? (named.value === null ? refuse("denied", "bad token") : ok(named.value)) : named;
