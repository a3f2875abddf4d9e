import { isWrapping, type TokenRow } from "./token.ts";

/** The place of leases. */
export interface LeasePlace {
  readonly namespace: string;
  /** The path that issued them, in that namespace. */
  readonly path: string;
  /** The role or user of a login; null for other leases. */
  readonly role: string | null;
}

/** Tokens with an expiry, by the path that issued them and the role or user of their login. */
interface TokenLeaseCount extends LeasePlace {
  readonly n: number;
}

type Counted = Pick<TokenRow, "namespace" | "path" | "family" | "expires" | "policies" | "auth_entry">;

/**
 * The number of leases of tokens, for lease-count quotas: upstream counts every service token with an expiry. Read from
 * the rows once, when the first quota needs it, and kept in memory after that.
 */
export class TokenLeaseCounts {
  #counts: Map<string, TokenLeaseCount> | null = null;

  constructor(private readonly sql: SqlStorage) {}

  /** Drops the counts, after a rollback or when the rows were replaced. */
  forget(): void {
    this.#counts = null;
  }

  all(): Iterable<TokenLeaseCount> {
    this.#counts ??= this.#read();
    return this.#counts.values();
  }

  inserted(row: Counted): void {
    if (this.#counts) this.#add(this.#counts, row, 1);
  }

  deleted(row: Counted): void {
    if (this.#counts) this.#add(this.#counts, row, -1);
  }

  #read(): Map<string, TokenLeaseCount> {
    const rows = this.sql.exec<Counted & { n: number }>(
      `SELECT namespace, path, family, auth_entry, policies, 1 AS expires, count(*) AS n FROM tokens
       WHERE family = 'secrets' AND expires IS NOT NULL GROUP BY namespace, path, auth_entry, policies`,
    );
    const counts = new Map<string, TokenLeaseCount>();
    for (const { n, ...row } of rows) this.#add(counts, row, n);
    return counts;
  }

  #add(counts: Map<string, TokenLeaseCount>, row: Counted, more: number): void {
    const { namespace, path, family, expires, auth_entry: entry } = row;
    if (family !== "secrets" || expires === null || isWrapping(row)) return;
    // The kind of the entry has no space.
    const role = entry === null ? null : entry.slice(entry.indexOf(" ") + 1);
    const key = JSON.stringify([namespace, path, role]);
    const n = (counts.get(key)?.n ?? 0) + more;
    if (n > 0) counts.set(key, { namespace, path, role, n });
    else counts.delete(key);
  }
}
