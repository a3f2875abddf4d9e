import { createHmac, randomBytes } from "node:crypto";
import type { TokenRow } from "./token.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Random letters and digits, without the bias of a plain modulo. */
export function randomText(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length * 2)) {
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

export type NewToken = Omit<TokenRow, "hash" | "accessor" | "create_index" | "modify_index"> & { accessor?: string };

/** The table of tokens. Every write happens inside the object's transaction. */
export class TokenStore {
  readonly #sql: SqlStorage;
  readonly #hashKey: () => Uint8Array;

  constructor(sql: SqlStorage, hashKey: () => Uint8Array) {
    this.#sql = sql;
    this.#hashKey = hashKey;
  }

  /** The keyed hash under which a token is stored: useless without the deployment's key. */
  hashOf(token: string): string {
    return createHmac("sha256", this.#hashKey()).update(token).digest("base64url");
  }

  /** The token's row, if it exists and has not expired. */
  find(token: string, now: number): TokenRow | null {
    if (token.length === 0 || token.length > 512) return null;
    return this.#alive(
      this.#sql.exec<TokenRow>("SELECT * FROM tokens WHERE hash = ?", this.hashOf(token)).toArray(),
      now,
    );
  }

  byAccessor(accessor: string, now: number): TokenRow | null {
    return this.#alive(this.#sql.exec<TokenRow>("SELECT * FROM tokens WHERE accessor = ?", accessor).toArray(), now);
  }

  exists(hash: string): boolean {
    return this.#sql.exec("SELECT 1 FROM tokens WHERE hash = ?", hash).toArray().length > 0;
  }

  insert(secret: string, token: NewToken): TokenRow {
    const row = {
      ...token,
      hash: this.hashOf(secret),
      accessor: token.accessor ?? (token.family === "cluster" ? crypto.randomUUID() : randomText(24)),
      create_index: null,
      modify_index: null,
    } as TokenRow;
    const columns = Object.keys(row);
    this.#sql.exec(
      `INSERT INTO tokens (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`,
      ...columns.map((column) => row[column] ?? null),
    );
    return row;
  }

  /** Writes what a renewal or an update changed. */
  update(row: TokenRow): void {
    this.#sql.exec(
      `UPDATE tokens SET policies = ?, name = ?, expires = ?, renewed = ?, uses = ?, orphan = ?, parent = ?, global = ?,
       modify_index = NULL WHERE hash = ?`,
      row.policies,
      row.name,
      row.expires,
      row.renewed,
      row.uses,
      row.orphan,
      row.parent,
      row.global,
      row.hash,
    );
  }

  spend(row: TokenRow): void {
    this.#sql.exec("UPDATE tokens SET uses = uses - 1 WHERE hash = ?", row.hash);
  }

  /** The token and all that descend from it. */
  family(hash: string): TokenRow[] {
    return this.#sql
      .exec<TokenRow>(
        `WITH RECURSIVE family (hash) AS (
           SELECT hash FROM tokens WHERE hash = ?
           UNION SELECT tokens.hash FROM tokens JOIN family ON tokens.parent = family.hash)
         SELECT tokens.* FROM tokens JOIN family ON tokens.hash = family.hash`,
        hash,
      )
      .toArray();
  }

  delete(rows: readonly TokenRow[]): void {
    for (const { hash } of rows) this.#sql.exec("DELETE FROM tokens WHERE hash = ?", hash);
  }

  /** Children of a token that goes while they stay. */
  orphanChildren(hash: string): void {
    this.#sql.exec("UPDATE tokens SET parent = NULL, orphan = 1 WHERE parent = ?", hash);
  }

  ofNamespace(path: string): TokenRow[] {
    return this.#sql
      .exec<TokenRow>("SELECT * FROM tokens WHERE namespace >= ? AND namespace < ?", path, upperBound(path))
      .toArray();
  }

  expired(now: number, limit: number): TokenRow[] {
    return this.#sql.exec<TokenRow>("SELECT * FROM tokens WHERE expires <= ? LIMIT ?", now, limit).toArray();
  }

  nextExpiry(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT min(expires) AS at FROM tokens").one().at;
  }

  count(): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM tokens").one().n;
  }

  /** Living tokens by accessor, `limit` of them after `after`, only those whose accessor starts with `prefix`. */
  page(now: number, { after = "", prefix = "", limit = 1000 }): TokenRow[] {
    return this.#sql
      .exec<TokenRow>(
        `SELECT * FROM tokens WHERE accessor > ? AND accessor >= ? AND accessor < ? AND (expires IS NULL OR expires > ?)
         ORDER BY accessor LIMIT ?`,
        after,
        prefix,
        upperBound(prefix),
        now,
        limit,
      )
      .toArray();
  }

  stamp(accessor: string, index: number): void {
    this.#sql.exec(
      "UPDATE tokens SET create_index = ifnull(create_index, ?), modify_index = ? WHERE accessor = ?",
      index,
      index,
      accessor,
    );
  }

  #alive([row]: TokenRow[], now: number): TokenRow | null {
    return row && (row.expires === null || row.expires > now) ? row : null;
  }
}

/** The first text after all that start with `prefix`: prefix search is a range, never LIKE. */
export const upperBound = (prefix: string): string => `${prefix}\u{10FFFF}`;
