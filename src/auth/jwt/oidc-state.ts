import { createHash, randomBytes } from "node:crypto";
import { decrypt, encrypt } from "../../platform/crypto/aes-gcm.ts";

/** How long a person may take to log in at the provider. */
const STATE_MS = 10 * 60_000;
const MAX_CHARACTERS = 8_192;

/** A login that a person has begun in a browser. */
export interface OidcState {
  readonly id: string;
  readonly role: string;
  readonly redirectUri: string;
  /** Stated by the ID token (OpenID Connect Core 1.0, 3.1.2.1). */
  readonly nonce: string;
  /** The PKCE verifier (RFC 7636): the provider got its hash. */
  readonly verifier: string;
  /** Hash of the client's nonce; empty when the client gave none. */
  readonly client: string;
  /** ms since 1970 */
  readonly expires: number;
}

const random = (): string => randomBytes(32).toString("base64url");
const context = (mount: string): string => `oidc-state ${mount}`;

/** SHA-256 as base64url: the PKCE method S256. */
export const hashed = (text: string): string => createHash("sha256").update(text).digest("base64url");

/** A new login with fresh random values. */
export const newState = (role: string, redirectUri: string, clientNonce: string, now: number): OidcState => ({
  id: random(),
  role,
  redirectUri,
  nonce: random(),
  verifier: random(),
  client: clientNonce === "" ? "" : hashed(clientNonce),
  expires: now + STATE_MS,
});

/**
 * The `state` parameter of a login. It holds the login itself, encrypted, so that requests for URLs store nothing.
 * @param key base64, of the mount's configuration
 */
export const sealState = (state: OidcState, key: string, mount: string): string =>
  Buffer.from(encrypt(Buffer.from(key, "base64"), Buffer.from(JSON.stringify(state)), context(mount))).toString(
    "base64url",
  );

/** Reverses `sealState`; null for a text that this mount did not make, and for an expired login. */
export function openState(text: string, key: string, mount: string, now: number): OidcState | null {
  if (key === "" || text.length > MAX_CHARACTERS) return null;
  try {
    const sealed = Buffer.from(text, "base64url");
    // Decoding skips characters that are no base64url.
    if (sealed.toString("base64url") !== text) return null;
    const plain = decrypt(Buffer.from(key, "base64"), sealed, context(mount));
    const state = JSON.parse(Buffer.from(plain).toString()) as OidcState;
    return state.expires > now ? state : null;
  } catch {
    return null;
  }
}
