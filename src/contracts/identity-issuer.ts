import type { Result } from "../lib/result.ts";
import type { Bearer } from "./federation.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** A key as verifiers read it (RFC 7517, 4; RFC 7518, 6.3.1). */
export interface PublicKey {
  readonly use: "sig";
  readonly kty: "RSA";
  readonly kid: string;
  readonly alg: "RS256";
  readonly n: string;
  readonly e: string;
}

/** A token that is wanted. `issuer` as the discovery document under it says it. */
export interface TokenAsk extends Bearer {
  readonly issuer: string;
  readonly audience: string;
  /** Seconds; 0: the default of an hour. */
  readonly ttlSeconds: number;
}

/** The methods of `IdentityIssuer` that other objects and Workers call. */
export interface IdentityIssuerApi extends StoredObjectApi {
  /** The origin that was set for all issuers; empty when none was. */
  configured(): string;
  /** @param issuer an origin, or empty for the one that the deployment has without it */
  configure(issuer: string): void;
  /** The origin of all issuers: what was set, else the setting `PUBLIC_URL`; null when each request's own is. */
  origin(): string | null;
  /** Every public key that a token may have been signed with, or soon will be. */
  published(): Promise<Result<PublicKey[]>>;
  /** A new token, signed with the current key. */
  sign(ask: TokenAsk): Promise<Result<string>>;
  /** @param verificationMs how long the key that signed until now stays published; the usual time unless given */
  rotate(verificationMs?: number): Promise<Result<null>>;
  rekey(term: number): void;
}
