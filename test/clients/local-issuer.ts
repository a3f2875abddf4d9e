import { exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from "jose";

/** Signs tokens by a key that an auth method is given as text, as pasted keys of GitHub or of a cluster are. */
export class LocalIssuer {
  readonly #name: string;
  readonly #pair = generateKeyPair("RS256", { extractable: true });

  constructor(name: string) {
    this.#name = name;
  }

  async publicKey(): Promise<string> {
    return exportSPKI((await this.#pair).publicKey);
  }

  async sign(claims: JWTPayload): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ iss: this.#name, iat: now - 60, nbf: now - 1, exp: now + 3600, ...claims })
      .setProtectedHeader({ alg: "RS256", typ: "JWT" })
      .sign((await this.#pair).privateKey);
  }
}

/** Claims of the token of the service account `app` in the Kubernetes namespace `prod`. */
export const POD_CLAIMS: JWTPayload = {
  sub: "system:serviceaccount:prod:app",
  aud: ["sallyport"],
  "kubernetes.io": { namespace: "prod", serviceaccount: { name: "app", uid: "0b1f7c3e" } },
};
