import { ok, type Result, refuse } from "../../lib/result.ts";
import { NOTHING, type ObjectContext } from "../../platform/durable/object-context.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { TokenStore } from "./token-store.ts";

/**
 * The mounts that may hold leases of a token, and must revoke them with it. One row per token and mount. The end of a
 * token is delivered to them by the outbox topic `leases`.
 */
export class LeaseHolders {
  constructor(
    private readonly sql: SqlStorage,
    private readonly tokens: TokenStore,
    private readonly outbox: Outbox,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /**
   * Registers a mount for the end of the token, before the mount issues a lease to it. Idempotent.
   * @returns whether the token has no limit of uses; a refusal if it has already ended
   */
  hold(accessor: string, mount: string, now: number): Result<boolean> {
    const token = this.tokens.byAccessor(accessor, now, true);
    if (!token) return refuse("denied", "permission denied: invalid token");
    // The request was the token's last use: a lease would end at once with the token.
    if (token.uses < 0)
      return refuse("invalid", "the token has no use left, so a lease of it would be revoked at once");
    this.commit(
      () => this.sql.exec("INSERT OR IGNORE INTO lease_holders (token, mount) VALUES (?, ?)", accessor, mount),
      NOTHING,
    );
    return ok(token.uses === 0);
  }

  /** Notifies the mounts of an ended token, inside the transaction that ends it. */
  ended(accessor: string): void {
    const mounts = this.sql
      .exec<{ mount: string }>("DELETE FROM lease_holders WHERE token = ? RETURNING mount", accessor)
      .toArray();
    for (const { mount } of mounts) this.outbox.enlist("leases", mount, accessor);
  }

  /** Removes a deleted mount. Runs inside a transaction. */
  forget(mount: string): void {
    this.sql.exec("DELETE FROM lease_holders WHERE mount = ?", mount);
  }
}
