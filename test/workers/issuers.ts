import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";

/** A token issuer at the double, with keys of its own. */
export interface Issuer {
  readonly url: string;
  readonly publicKey: CryptoKey;
  /** Signs claims; `iss`, `iat` and `exp` have usual values unless given. */
  sign(claims: JWTPayload, kid?: string): Promise<string>;
  /** Replaces the keys by a new pair with another key id. */
  rotate(kid: string): Promise<void>;
  /** Puts a document below the issuer's URL. */
  put(path: string, document: { status?: number; headers?: Record<string, string>; body: string }): Promise<void>;
  /** Requests for a document, with the last one's body. */
  requests(path: string): Promise<{ count: number; body: string; authorization: string }>;
}

const base = (): string => (env as unknown as { TEST_DOUBLES: { issuer: string } }).TEST_DOUBLES.issuer;
const KEYS = "/keys";

/** @param name unique in the test run: keys are cached by URL */
export async function newIssuer(name: string, algorithm = "RS256"): Promise<Issuer> {
  const path = `/${name}-${crypto.randomUUID()}`;
  const url = `${base()}${path}`;
  let pair = await generateKeyPair(algorithm, { extractable: true });
  let current = "key-1";
  const put: Issuer["put"] = async (below, document) => {
    await (await fetch(`${url}${below}`, { method: "PUT", body: JSON.stringify(document) })).text();
  };
  const publish = async () => {
    const jwk = { ...(await exportJWK(pair.publicKey)), kid: current, use: "sig", alg: algorithm };
    await put(KEYS, { body: JSON.stringify({ keys: [jwk] }) });
  };
  await publish();
  await put("/.well-known/openid-configuration", {
    body: JSON.stringify({ issuer: url, jwks_uri: `${url}${KEYS}`, authorization_endpoint: `${url}/authorize` }),
  });
  return {
    url,
    publicKey: pair.publicKey,
    put,
    sign: (claims, kid = current) => {
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT({ iss: url, iat: now, exp: now + 300, ...claims })
        .setProtectedHeader({ alg: algorithm, kid })
        .sign(pair.privateKey);
    },
    rotate: async (kid) => {
      pair = await generateKeyPair(algorithm, { extractable: true });
      current = kid;
      await publish();
    },
    requests: async (below) => (await fetch(`${base()}/_double/requests${path}${below}`)).json(),
  };
}
