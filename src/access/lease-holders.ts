import { ok, type Result, refuse } from "../lib/result.ts";
import type { TokenStore } from "./token-store.ts";

interface Host {
  readonly sql: SqlStorage;
  commit<T>(change: () => T): T;
  /** Promises a mount the news that a token has ended. Inside `commit`. */
  enlist(mount: string, accessor: string): void;
}

/** Which mounts have to hear of a token's end, because they may hold leases that end with it. */
export class LeaseHolders {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /**
   * A mount is about to give a lease to the token `accessor`, and hears of the token's end from now on. Idempotent.
   * @returns a refusal when that end has come already
   */
  hold(tokens: TokenStore, accessor: string, mount: string, now: number): Result<null> {
    const token = tokens.byAccessor(accessor, now, true);
    if (!token) return refuse("denied", "permission denied: invalid token");
    // The request was its last use: with the token, the lease would end at once.
    if (token.uses < 0)
      return refuse("invalid", "the token has no use left, so a lease of it would be revoked at once");
    this.#host.commit(() =>
      this.#host.sql.exec("INSERT OR IGNORE INTO lease_holders (token, mount) VALUES (?, ?)", accessor, mount),
    );
    return ok(null);
  }

  /** A token has ended. Inside the transaction that ends it. */
  ended(accessor: string): void {
    const mounts = this.#host.sql
      .exec<{ mount: string }>("DELETE FROM lease_holders WHERE token = ? RETURNING mount", accessor)
      .toArray();
    for (const { mount } of mounts) this.#host.enlist(mount, accessor);
  }

  /** A mount is gone. Inside a transaction. */
  forget(mount: string): void {
    this.#host.sql.exec("DELETE FROM lease_holders WHERE mount = ?", mount);
  }
}
