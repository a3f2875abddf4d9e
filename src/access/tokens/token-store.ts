import { createHmac } from "node:crypto";
import { BATCH_ACCESSOR, BATCH_PREFIX } from "../../contracts/tokens.ts";
import { Lru } from "../../lib/lru.ts";
import { randomText } from "../../lib/random-text.ts";
import { upperBound } from "../../lib/text-range.ts";
import { column, hasRow } from "../rows.ts";
import type { BatchTokens } from "./batch-tokens.ts";
import { type NewToken, type TokenRow, tokenRow } from "./token.ts";
import type { TokenHashKey } from "./token-hash-key.ts";
import { TokenLeaseCounts } from "./token-lease-counts.ts";

/** A new accessor, in the format of the token's API. */
export const newAccessor = (family: TokenRow["family"]): string =>
  family === "cluster" ? crypto.randomUUID() : randomText(24);

const MAX_HASHES = 2_000;

/** Filter of a page: a namespace with its descendants, a prefix of the accessor, global tokens. */
interface TokenPage {
  readonly from: string;
  readonly limit: number;
  readonly prefix?: string;
  readonly within?: string;
  readonly global?: 1 | null;
}

interface Page {
  readonly rows: TokenRow[];
  readonly next: string | null;
}

/** Rows that end with a token. */
interface TokenDependent {
  /** Called for each deleted token, inside the deleting transaction. */
  ended(accessor: string): void;
}

/**
 * The table of tokens, read by hash or accessor; each read costs one indexed row, and one for
 * each ancestor. Writes run inside the object's
 * transaction.
 *
 *     live ──expiry, revocation──► deleted
 *      └──last use──► spent (uses = -1, expires soon) ──► deleted
 */
export class TokenStore {
  readonly #dependents: TokenDependent[] = [];
  readonly leaseCounts: TokenLeaseCounts;
  /** Hashes of recent tokens, in memory only. */
  readonly #hashes = new Lru<string, string>(MAX_HASHES);
  /** Expired tokens that could not be deleted, by hash, and when each is tried again, ms since 1970; in memory only. */
  readonly #postponed = new Map<string, number>();

  constructor(
    private readonly sql: SqlStorage,
    private readonly hashKey: TokenHashKey,
    private readonly batch: BatchTokens,
  ) {
    this.leaseCounts = new TokenLeaseCounts(sql);
  }

  /** Adds rows that end with their token. They need the table of tokens, so it cannot be built with them. */
  addDependents(...dependents: readonly TokenDependent[]): void {
    this.#dependents.push(...dependents);
  }

  /** The keyed hash of a token, which is useless without the deployment's key. */
  hashOf(token: string): string {
    // While sealed this throws, also for a token in memory.
    const key = this.hashKey.open();
    const known = this.#hashes.get(token);
    if (known !== undefined) return known;
    const hash = createHmac("sha256", key).update(token).digest("base64url");
    this.#hashes.set(token, hash);
    return hash;
  }

  /** The number of tokens, of all namespaces; expired ones count until they are swept. */
  count(): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM tokens").one().n;
  }

  /**
   * The row of a live token, or the row that a batch token stands for.
   * @param spent accept a token whose last use is the current request
   */
  find(token: string, now: number, spent = false): TokenRow | null {
    const batch = token.startsWith(BATCH_PREFIX) ? this.batch.open(token) : null;
    return batch ? this.#living(batch, now) : this.byHash(this.hashOf(token), now, spent);
  }

  byHash(hash: string, now: number, spent = false): TokenRow | null {
    const rows = this.sql.exec<TokenRow>("SELECT * FROM tokens WHERE hash = ?", hash).toArray();
    return this.#alive(rows, now, spent);
  }

  byAccessor(accessor: string, now: number, spent = false): TokenRow | null {
    if (accessor.startsWith(BATCH_ACCESSOR)) {
      const batch = this.batch.named(accessor);
      return batch && this.#living(batch, now);
    }
    const rows = this.sql.exec<TokenRow>("SELECT * FROM tokens WHERE accessor = ?", accessor).toArray();
    return this.#alive(rows, now, spent);
  }

  /**
   * Seals a batch token instead of storing a row.
   * @param parent the accessor of its parent; null for an orphan
   * @returns null when the token would be longer than accepted. @throws Sealed
   */
  seal(token: NewToken, parent: string | null, now: number): { secret: string; row: TokenRow } | null {
    const secret = this.batch.seal(token, parent);
    const row = secret === null ? null : this.find(secret, now);
    return secret !== null && row ? { secret, row } : null;
  }

  /** A batch token while it and its parent live. It ends no later than its parent. */
  #living(row: TokenRow, now: number): TokenRow | null {
    if (row.parent === null) return this.#alive([row], now, false);
    const parent = this.byAccessor(row.parent, now);
    return parent && this.#alive([{ ...row, expires: earlier(row.expires, this.endOf(parent)) }], now, false);
  }

  /**
   * When a token ends: with its own expiry or that of an ancestor (ms since 1970), 0 when an ancestor is gone; null for
   * never. The expired are swept a moment later, and their descendants must not outlive them until then.
   */
  endOf(row: TokenRow): number | null {
    let end = row.expires;
    let hash = row.family === "batch" ? null : row.parent;
    while (hash !== null) {
      const [ancestor] = this.sql
        .exec<Pick<TokenRow, "expires" | "parent">>("SELECT expires, parent FROM tokens WHERE hash = ?", hash)
        .toArray();
      if (!ancestor) return 0;
      end = earlier(end, ancestor.expires);
      hash = ancestor.parent;
    }
    return end;
  }

  #alive([row]: TokenRow[], now: number, spent: boolean): TokenRow | null {
    if (!row || (row.uses < 0 && !spent)) return null;
    const end = this.endOf(row);
    return end === null || end > now ? row : null;
  }

  exists(hash: string): boolean {
    return hasRow(this.sql, "SELECT 1 FROM tokens WHERE hash = ?", hash);
  }

  insert(secret: string, token: NewToken): TokenRow {
    const row = tokenRow(token, this.hashOf(secret), token.accessor ?? newAccessor(token.family));
    const columns = Object.keys(row);
    this.sql.exec(
      `INSERT INTO tokens (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
      ...Object.values(row),
    );
    this.leaseCounts.inserted(row);
    return row;
  }

  /** Stores the changes of a renewal or an update. */
  update(row: TokenRow): void {
    this.sql.exec(
      `UPDATE tokens SET policies = ?, name = ?, expires = ?, renewed = ?, uses = ?, orphan = ?, parent = ?, global = ?, roles = ?,
       modify_index = NULL WHERE hash = ?`,
      row.policies,
      row.name,
      row.expires,
      row.renewed,
      row.uses,
      row.orphan,
      row.parent,
      row.global,
      row.roles,
      row.hash,
    );
  }

  /** Counts one use of a limited token. After its last use the token expires at `lastUntil`. */
  spend(row: TokenRow, lastUntil: number): void {
    if (row.uses > 1) this.sql.exec("UPDATE tokens SET uses = uses - 1 WHERE hash = ?", row.hash);
    else {
      this.sql.exec(
        "UPDATE tokens SET uses = ?, expires = min(ifnull(expires, ?), ?) WHERE hash = ?",
        SPENT,
        lastUntil,
        lastUntil,
        row.hash,
      );
      // A root token without an expiry is a lease from now on.
      if (row.expires === null) this.leaseCounts.inserted({ ...row, expires: lastUntil });
    }
  }

  /**
   * Ends all tokens of logins at an auth mount, with their descendants: they expire now, and are deleted as expired tokens
   * are.
   */
  endLogins(mount: string, now: number): void {
    this.#expire(now, "auth_mount = ?", mount);
  }

  /** Ends the tokens with an expiry that a path, or one below it, has issued: like `endLogins`. */
  endIssued(namespace: string, path: string, now: number): void {
    const [first, next] = [`${path}/`, upperBound(`${path}/`)];
    const where = "expires > ? AND namespace = ? AND (path = ? OR path >= ? AND path < ?)";
    this.#expire(now, where, now, namespace, path, first, next);
  }

  #expire(now: number, where: string, ...values: SqlStorageValue[]): void {
    this.sql.exec(
      `WITH RECURSIVE family (hash) AS (
         SELECT hash FROM tokens WHERE ${where}
         UNION SELECT tokens.hash FROM tokens JOIN family ON tokens.parent = family.hash)
       UPDATE tokens SET expires = ? WHERE hash IN family`,
      ...values,
      now,
    );
  }

  /** Paths of a namespace that begin with `prefix` and have issued living tokens with an expiry. */
  issuers(namespace: string, prefix: string, now: number): string[] {
    const query = `SELECT DISTINCT path FROM tokens
      WHERE namespace = ? AND path >= ? AND path < ? AND expires > ? AND uses >= 0 ORDER BY path`;
    return column(this.sql, query, namespace, prefix, upperBound(prefix), now);
  }

  /** Accessors behind `after` of living tokens with an expiry that a path has issued. */
  issuedBy(namespace: string, path: string, after: string, now: number, limit: number): string[] {
    const query = `SELECT accessor FROM tokens
      WHERE accessor > ? AND namespace = ? AND path = ? AND expires > ? AND uses >= 0 ORDER BY accessor LIMIT ?`;
    return column(this.sql, query, after, namespace, path, now, limit);
  }

  /** The hashes of a token and all its descendants. */
  family(hash: string): string[] {
    const query = `WITH RECURSIVE family (hash) AS (
        SELECT hash FROM tokens WHERE hash = ?
        UNION SELECT tokens.hash FROM tokens JOIN family ON tokens.parent = family.hash)
      SELECT hash FROM family`;
    return column(this.sql, query, hash);
  }

  /** The rows with these hashes, in their order. */
  rows(hashes: readonly string[]): TokenRow[] {
    return this.sql
      .exec<TokenRow>(
        "SELECT tokens.* FROM json_each(?) AS wanted CROSS JOIN tokens ON tokens.hash = wanted.value",
        JSON.stringify(hashes),
      )
      .toArray();
  }

  delete(rows: readonly TokenRow[]): void {
    for (const row of rows) {
      const { hash, accessor } = row;
      this.sql.exec("DELETE FROM tokens WHERE hash = ?", hash);
      this.leaseCounts.deleted(row);
      for (const dependent of this.#dependents) dependent.ended(accessor);
    }
  }

  /** Detaches the children of a token that is deleted alone. */
  orphanChildren(hash: string): void {
    this.sql.exec("UPDATE tokens SET parent = NULL, orphan = 1 WHERE parent = ?", hash);
  }

  ofNamespace(path: string): TokenRow[] {
    return this.sql
      .exec<TokenRow>("SELECT * FROM tokens WHERE namespace >= ? AND namespace < ?", path, upperBound(path))
      .toArray();
  }

  /** Expired tokens, without those that are postponed. */
  expired(now: number, limit: number): TokenRow[] {
    for (const [hash, until] of this.#postponed) if (until <= now) this.#postponed.delete(hash);
    return this.sql
      .exec<TokenRow>("SELECT * FROM tokens WHERE expires <= ? LIMIT ?", now, limit + this.#postponed.size)
      .toArray()
      .filter(({ hash }) => !this.#postponed.has(hash))
      .slice(0, limit);
  }

  /** Leaves an expired token out of `expired` and `nextExpiry` until then. */
  postpone(hash: string, until: number): void {
    this.#postponed.set(hash, until);
  }

  nextExpiry(): number | null {
    if (this.#postponed.size > 0) return this.#nextExpiryOfOthers();
    return this.sql.exec<{ at: number | null }>("SELECT min(expires) AS at FROM tokens WHERE expires IS NOT NULL").one()
      .at;
  }

  #nextExpiryOfOthers(): number {
    const next = this.sql
      .exec<{ hash: string; expires: number }>(
        "SELECT hash, expires FROM tokens WHERE expires IS NOT NULL ORDER BY expires LIMIT ?",
        this.#postponed.size + 1,
      )
      .toArray()
      .find(({ hash }) => !this.#postponed.has(hash));
    return Math.min(next?.expires ?? Number.POSITIVE_INFINITY, ...this.#postponed.values());
  }

  /** One page of live tokens, sorted by accessor; `next` is the first accessor of the following page. */
  page(now: number, { from, limit, prefix = "", within = "", global = null }: TokenPage): Page {
    const rows = this.sql
      .exec<TokenRow>(
        `SELECT * FROM tokens WHERE accessor >= ? AND accessor >= ? AND accessor < ? AND namespace >= ? AND namespace < ?
         AND (? IS NULL OR global = ?) AND (expires IS NULL OR expires > ?) AND uses >= 0 ORDER BY accessor LIMIT ?`,
        from,
        prefix,
        upperBound(prefix),
        within,
        upperBound(within),
        global,
        global,
        now,
        limit + 1,
      )
      .toArray();
    return { rows: rows.slice(0, limit), next: rows[limit]?.accessor ?? null };
  }
}

/** Value of `uses` after the last use. */
const SPENT = -1;

/** The earlier of two times; null is never. */
const earlier = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? (one ?? other) : Math.min(one, other);
