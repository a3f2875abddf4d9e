import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import type { PublicKey } from "../contracts/identity-issuer.ts";
import { earliest } from "../lib/earliest.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";

/** Interval between key rotations. */
export const ROTATION_PERIOD_MS = 24 * 3_600_000;
/** A public key stays published for this long after its private key stops signing. */
export const VERIFICATION_TTL_MS = 24 * 3_600_000;
const BITS = 2048;
/**
 * Entra ID stores the first 100 signing keys of an issuer
 * (https://learn.microsoft.com/en-us/entra/workload-id/workload-identity-federation).
 */
const PUBLISHED = 100;

/**
 * The keys that sign identity tokens, read by the issuer for each token and for the published key set.
 *
 *     next ──rotate, after a whole period──► current ──rotate──► past ──verification TTL──► deleted
 *
 * The next key is published a whole period before it signs, so that each verifier's cached key set has it. A past key
 * has no private half. Signing costs one read and one RSA operation. Writes run inside the object's transaction.
 */
export class SigningKeys {
  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
  ) {}

  any(): boolean {
    return this.#due() !== null;
  }

  /** Creates the first two keys. @throws Sealed */
  begin(now: number): void {
    this.#make("current", now);
    this.#make("next", now);
    this.#schedule(now);
  }

  /**
   * Makes the next key current, and creates a new next key. Requires `begin`.
   * @param verificationMs how long the previous current key stays published
   * @returns id of the current key
   * @throws Sealed
   */
  rotate(verificationMs: number, now: number): string {
    this.sql.exec(
      "UPDATE signing_keys SET state = 'past', sealed = NULL, ends = ? WHERE state = 'current'",
      now + verificationMs,
    );
    const { kid } = this.sql
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

  /** Deletes past keys after their verification TTL. */
  dropEnded(now: number): void {
    this.sql.exec("DELETE FROM signing_keys WHERE ends <= ?", now);
  }

  /** Time of the next rotation or deletion, ms since 1970; null without keys. */
  nextDue(): number | null {
    const { ends } = this.sql
      .exec<{ ends: number | null }>("SELECT min(ends) AS ends FROM signing_keys WHERE ends IS NOT NULL")
      .one();
    return earliest(this.#due(), ends);
  }

  /** The published keys at `now`: current, next, then past keys, newest first. */
  published(now: number): PublicKey[] {
    return this.sql
      .exec<{ jwk: string }>(
        `SELECT jwk FROM signing_keys WHERE ends IS NULL OR ends > ?
         ORDER BY CASE state WHEN 'current' THEN 0 WHEN 'next' THEN 1 ELSE 2 END, ends DESC LIMIT ?`,
        now,
        PUBLISHED,
      )
      .toArray()
      .map(({ jwk }) => JSON.parse(jwk) as PublicKey);
  }

  /** Signs a token (RFC 7515, compact) with these claims. @throws Sealed */
  sign(claims: Readonly<Record<string, unknown>>): string {
    const { kid, sealed } = this.sql
      .exec<{ kid: string; sealed: ArrayBuffer }>("SELECT kid, sealed FROM signing_keys WHERE state = 'current'")
      .one();
    const der = Buffer.from(this.keys.open(sealed, contextOf(kid)));
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
    this.sql.exec(
      "INSERT INTO signing_keys (kid, state, jwk, sealed, created) VALUES (?, ?, ?, ?, ?)",
      kid,
      state,
      JSON.stringify(jwk),
      this.keys.seal(der, contextOf(kid)),
      now,
    );
  }

  #due(): number | null {
    return this.sql.exec<{ due: number }>("SELECT due FROM rotation").toArray()[0]?.due ?? null;
  }

  #schedule(now: number): void {
    this.sql.exec(
      "INSERT INTO rotation VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET due = excluded.due",
      now + ROTATION_PERIOD_MS,
    );
  }
}

const contextOf = (kid: string): string => `identity-issuer signing-key ${kid}`;
const encoded = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString("base64url");
