import type { OneTimeToken } from "../../contracts/cluster-acl.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { NOTHING, type ObjectContext } from "../../platform/durable/object-context.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { firstRow } from "../rows.ts";
import type { TokenStore } from "./token-store.ts";

const LIFE_MS = 10 * 60_000;
const context = (accessor: string): string => `one-time-token ${accessor}`;

/**
 * One-time tokens: a caller leaves its token for one request with the one-time secret, within ten minutes
 * (https://developer.hashicorp.com/nomad/api-docs/acl/tokens#one-time-token). One row for each token at most, with a
 * keyed hash of the secret; the token in it is sealed.
 *
 *     created ──exchange, expiry, another one, end of the token──► deleted
 */
export class OneTimeTokens {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly tokens: TokenStore,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** Creates the one-time token of a token, in place of an earlier one. @throws Sealed */
  create(token: string, now: number): Result<OneTimeToken> {
    const row = this.tokens.find(token, now);
    if (!row) return refuse("denied", "permission denied");
    if (row.family === "batch" || row.uses !== 0) {
      return refuse("invalid", "one-time tokens need a service token without a limit of uses");
    }
    const { accessor } = row;
    const secret = crypto.randomUUID();
    const expires = now + LIFE_MS;
    const hash = this.tokens.hashOf(secret);
    const sealed = this.keys.seal(token, context(accessor));
    this.commit(() => {
      this.sql.exec("DELETE FROM one_time_tokens WHERE expires <= ?", now);
      this.sql.exec("DELETE FROM one_time_tokens WHERE accessor = ?", accessor);
      this.sql.exec("INSERT INTO one_time_tokens VALUES (?, ?, ?, ?)", accessor, hash, expires, sealed);
    }, NOTHING);
    return ok({ OneTimeSecretID: secret, AccessorID: accessor, ExpiresAt: new Date(expires).toISOString() });
  }

  /** The token that a one-time secret stands for, and its accessor. The secret is used up. @throws Sealed */
  exchange(secret: string, now: number): Result<{ accessor: string; secret: string }> {
    const row = firstRow<{ accessor: string; expires: number; token: ArrayBuffer }>(
      this.sql,
      "SELECT accessor, expires, token FROM one_time_tokens WHERE hash = ?",
      this.tokens.hashOf(secret),
    );
    if (!row || row.expires <= now || !this.tokens.byAccessor(row.accessor, now)) {
      return refuse("denied", "permission denied");
    }
    const { accessor } = row;
    const token = this.keys.openText(row.token, context(accessor));
    this.commit(() => {
      this.sql.exec("DELETE FROM one_time_tokens WHERE accessor = ?", accessor);
      recordAction("one-time-token-exchanged", { accessor });
    }, NOTHING);
    return ok({ accessor, secret: token });
  }

  /** Deletes the one-time token of a token that has ended. Runs inside the ending transaction. */
  ended(accessor: string): void {
    this.sql.exec("DELETE FROM one_time_tokens WHERE accessor = ?", accessor);
  }

  nextExpiry(): number | null {
    return this.sql.exec<{ at: number | null }>("SELECT min(expires) AS at FROM one_time_tokens").one().at;
  }

  expire(now: number): void {
    if ((this.nextExpiry() ?? now + 1) > now) return;
    this.commit(() => this.sql.exec("DELETE FROM one_time_tokens WHERE expires <= ?", now), NOTHING);
  }
}
