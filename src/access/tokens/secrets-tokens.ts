import type { Authed, TokenName } from "../../contracts/tokens.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { type ChangedKeys, NOTHING } from "../../platform/durable/object-context.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { tokenDeleted, tokenUpserted } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import type { RenewalLimits } from "./renewal-limits.ts";
import { isWrapping, type TokenRow } from "./token.ts";
import { knownToken, type TokenCapabilities } from "./token-capabilities.ts";
import type { TokenRules } from "./token-rules.ts";
import type { TokenStore } from "./token-store.ts";

/** A token outlives the start of its last request by this time, because the request may still query it. */
const LAST_REQUEST_MS = 10_000;

/** Tokens that one request deletes. */
const MAX_DELETED = 500;
/** Expired tokens that one transaction deletes. */
const EXPIRED_TOGETHER = 50;
/** Tokens in memory while a family ends. */
const ENDED_TOGETHER = 100;
/** An expired token that could not be deleted is tried again after this time. */
const RETRY_MS = 60_000;
/** Deletions that fail one after another, after which the others are not tried. */
const FAILED_IN_A_ROW = 3;

/** Looks up, renews and revokes tokens for the secrets API. Each change and its event are one transaction. */
export class SecretsTokens {
  constructor(
    private readonly store: TokenStore,
    private readonly rules: TokenRules,
    private readonly rights: TokenCapabilities,
    private readonly renewalLimits: RenewalLimits,
    private readonly publisher: AccessPublisher,
  ) {}

  /** Counts one use of a token with limited uses. */
  spend(row: TokenRow, now: number): void {
    // No replica holds an answer about such a token.
    this.publisher.commit(() => this.store.spend(row, now + LAST_REQUEST_MS), NOTHING);
  }

  /** @throws Sealed */
  lookup(name: TokenName): Result<Record<string, unknown>> {
    const row = knownToken(this.rights.named(name));
    return row.ok ? ok(this.rules.view(row.value, textIn(name), Date.now())) : row;
  }

  /** @throws Sealed */
  renew(name: TokenName, increment: number): Result<Authed> {
    const now = Date.now();
    const row = this.rights.named(name);
    if (!row.ok) return row;
    if (row.value === null) return refuse("invalid", "token not found");
    if (row.value.family === "batch") return refuse("invalid", "batch tokens cannot be renewed");
    const limits = this.renewalLimits.of(row.value);
    if (!limits.ok) return limits;
    const renewed = this.rules.renew(row.value, limits.value, increment, now);
    if (!renewed.ok) return renewed;
    const { row: next, warnings } = renewed.value;
    this.publisher.commit(() => {
      this.store.update(next);
      this.publisher.emit([tokenUpserted(next)], [{ token: next.accessor }]);
    }, [next.hash]);
    return ok({ auth: this.rules.authBlock(next, textIn(name), now), warnings });
  }

  /** Revokes a token, with or without its descendants. An unknown token counts as revoked. @throws Sealed */
  revoke(name: TokenName, keepChildren: boolean): Result<null> {
    const named = this.rights.named(name);
    if (!named.ok || named.value === null) return named.ok ? ok(null) : named;
    const row = named.value;
    if (row.family === "batch") return refuse("invalid", "batch tokens cannot be revoked");
    this.publisher.commit(
      () => {
        if (keepChildren) this.store.orphanChildren(row.hash);
        this.#end(row);
      },
      this.#endingWith([row]),
    );
    return ok(null);
  }

  /**
   * Revokes the tokens that a path of a namespace, or one below it, has issued; those without an expiry stay. All are
   * refused from now on; their open streams end with their events, which a call emits for some of them.
   * @returns whether another call has more to do; otherwise the alarm does it
   */
  revokeIssued(namespace: string, path: string): Result<boolean> {
    const now = Date.now();
    this.publisher.commit(() => this.store.endIssued(namespace, path, now));
    return ok(this.expire(now, MAX_DELETED) === MAX_DELETED);
  }

  /**
   * Deletes up to `limit` expired tokens with all their descendants. One that cannot be deleted is left for later, and
   * the others are deleted. @returns the number, without descendants
   */
  expire(now: number, limit: number): number {
    const expired = this.store.expired(now, limit);
    for (let at = 0; at < expired.length; at += EXPIRED_TOGETHER) {
      const some = expired.slice(at, at + EXPIRED_TOGETHER);
      try {
        this.#expire(some);
      } catch {
        this.#expireEach(some, now);
      }
    }
    return expired.length;
  }

  /** Deletes expired tokens as one transaction. */
  #expire(rows: readonly TokenRow[]): void {
    this.publisher.commit(() => {
      for (const row of rows) this.#end(row);
    }, this.#endingWith(rows));
    for (const { accessor } of rows) recordAction("token-expired", { accessor });
  }

  /**
   * Deletes expired tokens one by one, and postpones those that cannot be deleted.
   * @throws the failure of the third one in a row: then it is not the token's
   */
  #expireEach(rows: readonly TokenRow[], now: number): void {
    let failed = 0;
    for (const row of rows) {
      try {
        this.#expire([row]);
        failed = 0;
      } catch (failure) {
        warn("token-not-deleted", { accessor: row.accessor, because: textOf(failure) });
        this.store.postpone(row.hash, now + RETRY_MS);
        failed += 1;
        if (failed === FAILED_IN_A_ROW) throw failure;
      }
    }
  }

  /** One page of the accessors of a namespace and its descendants. */
  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null } {
    const { rows, next } = this.store.page(Date.now(), { from, limit, within });
    return { keys: rows.map(({ accessor }) => accessor), next };
  }

  #endingWith(rows: readonly TokenRow[]): ChangedKeys {
    return rows.flatMap(({ hash }) => this.store.family(hash));
  }

  /**
   * Deletes a token with its descendants, some at a time, because their rows together may exceed the memory. Runs inside
   * a transaction.
   */
  #end({ hash }: TokenRow): void {
    const family = this.store.family(hash);
    for (let at = 0; at < family.length; at += ENDED_TOGETHER) {
      const gone = this.store.rows(family.slice(at, at + ENDED_TOGETHER));
      this.store.delete(gone);
      // Wrapping tokens send no events: they are part of an answer.
      this.publisher.emit(gone.filter((each) => !isWrapping(each)).map(tokenDeleted));
    }
  }
}

const textIn = (name: TokenName): string => ("own" in name ? name.own : "token" in name ? name.token : "");
