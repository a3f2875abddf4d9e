import { exportJWK, type GenerateKeyPairResult, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";

export const ALGORITHM = "RS256";
const KEY_ID = "key-1";
const LIFETIME_SECONDS = 600;

/** An issuer of signed tokens with one key pair. */
export class SigningIssuer {
  readonly url: string;
  readonly #pair: GenerateKeyPairResult;

  private constructor(url: string, pair: GenerateKeyPairResult) {
    this.url = url;
    this.#pair = pair;
  }

  static async create(url: string): Promise<SigningIssuer> {
    return new SigningIssuer(url, await generateKeyPair(ALGORITHM, { extractable: true }));
  }

  /** Signs claims; `iss`, `iat`, `nbf` and `exp` have usual values unless given. */
  sign(claims: JWTPayload): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ iss: this.url, iat: now, nbf: now, exp: now + LIFETIME_SECONDS, ...claims })
      .setProtectedHeader({ alg: ALGORITHM, kid: KEY_ID, typ: "JWT" })
      .sign(this.#pair.privateKey);
  }

  /** The key set that verifies its tokens. */
  async keySet(): Promise<{ keys: JWK[] }> {
    return { keys: [{ ...(await this.publicKey()), use: "sig", alg: ALGORITHM }] };
  }

  async publicKey(): Promise<JWK> {
    return { ...(await exportJWK(this.#pair.publicKey)), kid: KEY_ID };
  }

  async privateKey(): Promise<JWK> {
    return { ...(await exportJWK(this.#pair.privateKey)), kid: KEY_ID };
  }
}
