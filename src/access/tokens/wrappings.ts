import type { Unwrapped, WrapInfo, WrapLookup, WrapRequest } from "../../contracts/wrapping.ts";
import { randomText } from "../../lib/random-text.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { NOTHING, type ObjectContext } from "../../platform/durable/object-context.ts";
import { firstRow } from "../rows.ts";
import { isWrapping, type TokenRow, WRAPPING_POLICIES } from "./token.ts";
import type { TokenStore } from "./token-store.ts";

/** Bounds of all wrapped answers of the deployment (docs/reference/limits.md). */
const MAX_ANSWERS = 100_000;
const MAX_BYTES = 1024 * 1024 * 1024;
/** Bound of the wrapped answers of one token. */
const MAX_OF_TOKEN = 5_000;

const NOT_VALID = "wrapping token is not valid or does not exist";

/**
 * Wrapped answers (https://developer.hashicorp.com/vault/docs/concepts/response-wrapping): the sealed body of an
 * answer, one row each, readable once with its wrapping token. The token has no parent, so it outlives its creator's
 * token. The row is deleted in the transaction that deletes the token: by the first unwrap, by revocation or at expiry.
 */
export class Wrappings {
  /** Number and bytes of the stored answers; undefined until they are counted. */
  #held: { n: number; bytes: number } | undefined;

  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly tokens: TokenStore,
    /** Wrapping tokens have one use, so no replica holds an answer about them. */
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** Drops the cached totals, after a rollback. */
  forget(): void {
    this.#held = undefined;
  }

  /** Stores an answer. Its body is readable only with the returned token. @throws Sealed */
  wrap(request: WrapRequest, now: number): Result<WrapInfo> {
    const { n, bytes } = this.#totals();
    if (n >= MAX_ANSWERS || bytes + Buffer.byteLength(request.body) > MAX_BYTES) {
      return refuse(
        "exhausted",
        `wrapped answers: at most ${MAX_ANSWERS} and ${MAX_BYTES} bytes wait at a time; unwrap or revoke some, or try later`,
      );
    }
    if (request.asker !== null && this.#waitingOf(request.asker) >= MAX_OF_TOKEN) {
      return refuse("exhausted", `wrapped answers: at most ${MAX_OF_TOKEN} of one token wait at a time`);
    }
    return ok(this.commit(() => this.#insert(request, now), NOTHING));
  }

  #waitingOf(asker: string): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM wrapped_answers WHERE asker = ?", asker).one().n;
  }

  /** Describes a wrapped answer without opening it. @throws Sealed */
  lookup(token: string, now: number): Result<WrapLookup> {
    const row = this.#find(token, now);
    return row
      ? ok({ creation_path: row.path, creation_time: new Date(row.created).toISOString(), creation_ttl: row.ttl })
      : refuse("invalid", NOT_VALID);
  }

  /** Returns the body of a wrapped answer, and deletes it with its token in one transaction. @throws Sealed */
  unwrap(token: string, now: number): Result<Unwrapped> {
    const row = this.#find(token, now);
    return row ? ok(this.commit(() => this.#take(row), NOTHING)) : refuse("invalid", NOT_VALID);
  }

  /** Like `unwrap`, by accessor; null unless it is the accessor of a wrapping token. @throws Sealed */
  unwrapByAccessor(accessor: string, now: number): Unwrapped | null {
    const row = this.tokens.byAccessor(accessor, now);
    return row && isWrapping(row) && this.#accessorsOf(accessor) !== null
      ? this.commit(() => this.#take(row), NOTHING)
      : null;
  }

  /** Moves a wrapped answer to a new token with the original TTL. The earlier token ends. @throws Sealed */
  rewrap(token: string, now: number): Result<WrapInfo> {
    const row = this.#find(token, now);
    if (!row) return refuse("invalid", NOT_VALID);
    const { namespace, path, ttl } = row;
    return ok(
      this.commit(() => {
        const { wrapped = "", asker = null } = this.#accessorsOf(row.accessor) ?? {};
        const { body } = this.#take(row);
        return this.#insert({ namespace, path, ttl, body, accessor: wrapped, asker }, now);
      }, NOTHING),
    );
  }

  /** Deletes the answer of an ended token, inside the transaction that ends it. */
  ended(accessor: string): void {
    const deleted = this.sql
      .exec<{ bytes: number }>("DELETE FROM wrapped_answers WHERE token = ? RETURNING bytes", accessor)
      .toArray();
    for (const { bytes } of deleted) {
      if (this.#held) this.#held = { n: this.#held.n - 1, bytes: this.#held.bytes - bytes };
    }
  }

  #find(token: string, now: number): TokenRow | null {
    const row = this.tokens.find(token, now);
    return row && isWrapping(row) && this.#accessorsOf(row.accessor) !== null ? row : null;
  }

  /** Accessors of an answer's row; null without an answer, as for a token that only has the policy's name. */
  #accessorsOf(accessor: string): { wrapped: string; asker: string | null } | null {
    return firstRow(this.sql, "SELECT wrapped, asker FROM wrapped_answers WHERE token = ?", accessor);
  }

  #insert({ namespace, path, ttl, body, accessor: wrapped, asker }: WrapRequest, now: number): WrapInfo {
    const token = `hvs.${randomText(24)}`;
    const row = this.tokens.insert(token, {
      namespace,
      path,
      ttl,
      policies: WRAPPING_POLICIES,
      family: "secrets",
      name: "",
      created: now,
      expires: now + ttl * 1000,
      explicit_max_ttl: ttl,
      uses: 1,
    });
    const bytes = Buffer.byteLength(body);
    this.sql.exec(
      "INSERT INTO wrapped_answers (token, bytes, wrapped, body, asker) VALUES (?, ?, ?, ?, ?)",
      row.accessor,
      bytes,
      wrapped,
      this.keys.seal(body, context(row)),
      asker,
    );
    if (this.#held) this.#held = { n: this.#held.n + 1, bytes: this.#held.bytes + bytes };
    const creation_time = new Date(now).toISOString();
    return { token, accessor: row.accessor, ttl, creation_time, creation_path: path, wrapped_accessor: wrapped };
  }

  #take(row: TokenRow): Unwrapped {
    const { body } = this.sql
      .exec<{ body: ArrayBuffer }>("SELECT body FROM wrapped_answers WHERE token = ?", row.accessor)
      .one();
    const text = this.keys.openText(body, context(row));
    this.tokens.delete([row]);
    return { accessor: row.accessor, body: text };
  }

  #totals(): { n: number; bytes: number } {
    this.#held ??= this.sql
      .exec<{ n: number; bytes: number }>("SELECT count(*) AS n, ifnull(sum(bytes), 0) AS bytes FROM wrapped_answers")
      .one();
    return this.#held;
  }
}

/** Binds a sealed body to its token and expiry. */
const context = ({ hash, expires }: TokenRow): string => JSON.stringify(["wrapped-answer", hash, expires]);
