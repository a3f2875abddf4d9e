import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import type { PublicKey } from "../contracts/identity-issuer.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";

/** How often the keys rotate. */
export const ROTATION_PERIOD_MS = 24 * 3_600_000;
/** How long a public key stays published after its private one has signed for the last time. */
export const VERIFICATION_TTL_MS = 24 * 3_600_000;
const BITS = 2048;
/** Providers ignore what comes behind about this many keys (docs/internals/wire/credentials.md). */
const PUBLISHED = 100;

/**
 * The keys that sign identity tokens: the current one, the next one, and past ones whose tokens may still be about. The next
 * is published a whole period before it signs, so that no verifier meets a key that its copy of the list does not have. A
 * past one cannot sign any more: its private half is gone. Writes run inside the object's transaction.
 */
export class SigningKeys {
  readonly #sql: SqlStorage;
  readonly #keys: DataKeys;

  constructor(sql: SqlStorage, keys: DataKeys) {
    this.#sql = sql;
    this.#keys = keys;
  }

  any(): boolean {
    return this.#due() !== null;
  }

  /** Makes the first two keys. @throws Sealed */
  begin(now: number): void {
    this.#make("current", now);
    this.#make("next", now);
    this.#schedule(now);
  }

  /**
   * The next key signs from now on, and another is made to follow it. Call `begin` first.
   * @param verificationMs how long the one that signed until now stays published @returns the key that signs now @throws Sealed
   */
  rotate(verificationMs: number, now: number): string {
    this.#sql.exec(
      "UPDATE signing_keys SET state = 'past', sealed = NULL, ends = ? WHERE state = 'current'",
      now + verificationMs,
    );
    const { kid } = this.#sql
      .exec<{ kid: string }>("UPDATE signing_keys SET state = 'current' WHERE state = 'next' RETURNING kid")
      .one();
    this.#make("next", now);
    this.#schedule(now);
    this.dropEnded(now);
    return kid;
  }

  isDue(now: number): boolean {
    const due = this.#due();
    return due !== null && due <= now;
  }

  /** Past keys whose time is over are published no more. */
  dropEnded(now: number): void {
    this.#sql.exec("DELETE FROM signing_keys WHERE ends <= ?", now);
  }

  /** When there is next something to do, ms since 1970; null without keys. */
  nextDue(): number | null {
    const { ends } = this.#sql
      .exec<{ ends: number | null }>("SELECT min(ends) AS ends FROM signing_keys WHERE ends IS NOT NULL")
      .one();
    const due = [this.#due(), ends].filter((at) => at !== null);
    return due.length === 0 ? null : Math.min(...due);
  }

  /** All that verifies a token at `now`: the key in use, the one to come, then past ones, the latest first. */
  published(now: number): PublicKey[] {
    return this.#sql
      .exec<{ jwk: string }>(
        `SELECT jwk FROM signing_keys WHERE ends IS NULL OR ends > ?
         ORDER BY CASE state WHEN 'current' THEN 0 WHEN 'next' THEN 1 ELSE 2 END, ends DESC LIMIT ?`,
        now,
        PUBLISHED,
      )
      .toArray()
      .map(({ jwk }) => JSON.parse(jwk) as PublicKey);
  }

  /** A signed token (RFC 7515, compact) with these claims. @throws Sealed */
  sign(claims: Readonly<Record<string, unknown>>): string {
    const { kid, sealed } = this.#sql
      .exec<{ kid: string; sealed: ArrayBuffer }>("SELECT kid, sealed FROM signing_keys WHERE state = 'current'")
      .one();
    const der = Buffer.from(this.#keys.open(sealed, contextOf(kid)));
    const signed = [{ alg: "RS256", kid, typ: "JWT" }, claims].map(encoded).join(".");
    const signature = sign("sha256", Buffer.from(signed), createPrivateKey({ key: der, format: "der", type: "pkcs8" }));
    return `${signed}.${signature.toString("base64url")}`;
  }

  #make(state: "current" | "next", now: number): void {
    const kid = crypto.randomUUID();
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: BITS });
    const { n = "", e = "" } = publicKey.export({ format: "jwk" });
    const jwk: PublicKey = { use: "sig", kty: "RSA", kid, alg: "RS256", n, e };
    const der = privateKey.export({ format: "der", type: "pkcs8" });
    this.#sql.exec(
      "INSERT INTO signing_keys (kid, state, jwk, sealed, created) VALUES (?, ?, ?, ?, ?)",
      kid,
      state,
      JSON.stringify(jwk),
      this.#keys.seal(der, contextOf(kid)),
      now,
    );
  }

  #due(): number | null {
    return this.#sql.exec<{ due: number }>("SELECT due FROM rotation").toArray()[0]?.due ?? null;
  }

  #schedule(now: number): void {
    this.#sql.exec(
      "INSERT INTO rotation VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET due = excluded.due",
      now + ROTATION_PERIOD_MS,
    );
  }
}

const contextOf = (kid: string): string => `identity-issuer signing-key ${kid}`;
const encoded = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString("base64url");
