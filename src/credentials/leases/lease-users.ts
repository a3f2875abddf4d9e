import { createHash } from "node:crypto";
import { earliest } from "../../lib/earliest.ts";
import type { Identity } from "../../platform/http/exchange.ts";

/** A caller that was given a shared lease. */
export interface LeaseUser {
  /** The accessor of its token. */
  readonly token: string;
  /** The lease is not needed beyond this time, ms since 1970; null for no such limit. */
  readonly until: number | null;
}

/**
 * The callers of shared leases, and of the jobs that make one under the same id: one row each. A shared lease ends when the
 * last of its users has ended. Writes run inside the object's transaction.
 */
export class LeaseUsers {
  constructor(private readonly sql: SqlStorage) {}

  add(lease: string, { token, until }: LeaseUser): void {
    this.sql.exec(
      `INSERT INTO lease_users (lease, token, until) VALUES (?, ?, ?) ON CONFLICT (lease, token) DO UPDATE SET
       until = CASE WHEN until IS NULL OR excluded.until IS NULL THEN NULL ELSE max(until, excluded.until) END`,
      lease,
      token,
      until,
    );
  }

  /** The users of a lease; empty for a lease that is not shared. */
  of(lease: string): LeaseUser[] {
    return this.sql
      .exec<{ token: string; until: number | null }>(
        "SELECT token, until FROM lease_users WHERE lease = ? ORDER BY token",
        lease,
      )
      .toArray();
  }

  /** Ids of the leases of a token. */
  leasesOf(token: string): string[] {
    return this.sql
      .exec<{ lease: string }>("SELECT lease FROM lease_users WHERE token = ?", token)
      .toArray()
      .map(({ lease }) => lease);
  }

  remove(lease: string, token: string): void {
    this.sql.exec("DELETE FROM lease_users WHERE lease = ? AND token = ?", lease, token);
  }

  /** Removes the users of a lease that is gone. */
  forget(lease: string): void {
    this.sql.exec("DELETE FROM lease_users WHERE lease = ?", lease);
  }
}

/**
 * The holder of the leases that a token is issued: the token, or the parent of a batch token. A batch token without a
 * parent has no record, and its accessor holds all that it states, so a digest names it.
 */
export function holderOf({ accessor, batch }: Identity): { readonly token: string; readonly unregistered?: true } {
  if (!batch) return { token: accessor };
  if (batch.parent !== null) return { token: batch.parent };
  return { token: `batch ${createHash("sha256").update(accessor).digest("base64url")}`, unregistered: true };
}

/** The end of the longest user, ms since 1970; null when one of them has no limit. */
export function endOfUsers(users: readonly LeaseUser[]): number | null {
  if (users.some(({ until }) => until === null)) return null;
  const ends = users.map(({ until }) => until ?? 0);
  return ends.length === 0 ? 0 : Math.max(...ends);
}

/** The last end of a lease: that of its secret, and of the longest user of a shared one. */
export const lastEnd = (keyEnds: number, users: readonly LeaseUser[]): number =>
  users.length === 0 ? keyEnds : (earliest(keyEnds, endOfUsers(users)) ?? keyEnds);
