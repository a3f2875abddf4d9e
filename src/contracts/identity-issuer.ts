import type { Result } from "../lib/result.ts";
import type { JsonWebKey } from "../wire/auth.ts";
import type { Wire } from "../wire/infer.ts";
import type { Audience, Bearer } from "./federation.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

export type PublicKey = Wire<typeof JsonWebKey>;

/** A token to sign. `issuer` equals the `issuer` of its discovery document. */
export interface TokenRequest extends Bearer, Audience {
  /** Upstream's name of the mount's plugin; absent in requests of the version before, which had one type. */
  readonly plugin?: string;
  readonly issuer: string;
}

/** A token of a sync destination to sign. */
export interface SyncTokenRequest extends Audience {
  readonly issuer: string;
  readonly subject: string;
}

/** The methods of `IdentityIssuer` that other objects and Workers call. */
export interface IdentityIssuerApi extends StoredObjectApi {
  /** The configured origin of all issuers; empty for none. */
  configured(): string;
  /** @param issuer an origin; empty restores the default */
  configure(issuer: string): void;
  /** The origin of all issuers: configured, else `PUBLIC_URL`; null = the origin of each request. */
  origin(): string | null;
  /** Public keys of current, previous and next signatures. */
  published(): Promise<Result<PublicKey[]>>;
  /** Signs a token with the current key. */
  sign(ask: TokenRequest): Promise<Result<string>>;
  /** Signs a token of a sync destination with the current key. */
  signSync(ask: SyncTokenRequest): Promise<Result<string>>;
  /** @param verificationMs how long the previous key stays published */
  rotate(verificationMs?: number): Promise<Result<null>>;
  rekey(term: number): void;
}
