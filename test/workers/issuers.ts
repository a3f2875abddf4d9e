import { env } from "cloudflare:workers";
import { exportJWK, type GenerateKeyPairResult, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import type { ProviderSettings } from "../doubles/oidc-provider.ts";
import type { ClusterSettings } from "../doubles/token-reviews.ts";

/** A token issuer at the double, with its own keys. */
export interface Issuer {
  readonly url: string;
  readonly publicKey: CryptoKey;
  /** The current private key, with its key id. */
  privateKey(): Promise<JWK>;
  /** Signs claims; `iss`, `iat` and `exp` have usual values unless given. */
  sign(claims: JWTPayload, kid?: string): Promise<string>;
  /** Replaces the keys by a new pair with another key id. */
  rotate(kid: string): Promise<void>;
  /** Puts a document below the issuer's URL. */
  put(path: string, document: { status?: number; headers?: Record<string, string>; body: string }): Promise<void>;
  /** Requests for a document, with the last one's body and trace context. */
  requests(path: string): Promise<{ count: number; body: string; authorization: string; trace: string }>;
}

const base = (): string => (env as unknown as { TEST_DOUBLES: { issuer: string } }).TEST_DOUBLES.issuer;
const KEYS = "/keys";

/** More pairs than one test needs of an algorithm: eight issuers in a row have different keys. */
const KEPT = 8;
const kept = new Map<string, { readonly pairs: GenerateKeyPairResult[]; taken: number }>();

/** A key pair that differs from those of the last seven calls. Generating an RSA key takes longer than most tests. */
async function nextPair(algorithm: string): Promise<GenerateKeyPairResult> {
  const ring = kept.get(algorithm) ?? { pairs: [], taken: 0 };
  kept.set(algorithm, ring);
  const at = ring.taken++ % KEPT;
  const pair = ring.pairs[at] ?? (await generateKeyPair(algorithm, { extractable: true }));
  ring.pairs[at] = pair;
  return pair;
}

/** @param name unique in the test run: keys are cached by URL */
export async function newIssuer(name: string, algorithm = "RS256"): Promise<Issuer> {
  const path = `/${name}-${crypto.randomUUID()}`;
  const url = `${base()}${path}`;
  let pair = await nextPair(algorithm);
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
    privateKey: async () => ({ ...(await exportJWK(pair.privateKey)), kid: current }),
    put,
    sign: (claims, kid = current) => {
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT({ iss: url, iat: now, exp: now + 300, ...claims })
        .setProtectedHeader({ alg: algorithm, kid })
        .sign(pair.privateKey);
    },
    rotate: async (kid) => {
      pair = await nextPair(algorithm);
      current = kid;
      await publish();
    },
    requests: async (below) => (await fetch(`${base()}/_double/requests${path}${below}`)).json(),
  };
}

/** An OpenID provider at the double. */
export interface Provider extends Issuer {
  /** Changes the provider's behaviour from now on. */
  change(settings: Partial<ProviderSettings>): Promise<void>;
  /** Follows a person's browser: the parameters that the provider returns it with. */
  visit(authUrl: string): Promise<Record<string, string>>;
}

export const CLIENT = { oidc_client_id: "sallyport", oidc_client_secret: "s3cret:with%signs&" };

/** @param redirectUris those registered for the client */
export async function newProvider(name: string, redirectUris: readonly string[]): Promise<Provider> {
  const issuer = await newIssuer(name);
  const { url } = issuer;
  const change: Provider["change"] = async (settings) => {
    const at = url.replace(base(), `${base()}/_double/oidc`);
    await (await fetch(at, { method: "PUT", body: JSON.stringify(settings) })).text();
  };
  await change({
    issuer: url,
    redirectUris,
    clientId: CLIENT.oidc_client_id,
    clientSecret: CLIENT.oidc_client_secret,
    key: await issuer.privateKey(),
    algorithm: "RS256",
    claims: { sub: "ann", email: "ann@example.com" },
  });
  const endpoints = {
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    userinfo_endpoint: `${url}/userinfo`,
  };
  const discovery = { issuer: url, jwks_uri: `${url}/keys`, ...endpoints };
  await issuer.put("/.well-known/openid-configuration", { body: JSON.stringify(discovery) });
  return {
    ...issuer,
    change,
    visit: async (authUrl) => {
      const response = await fetch(authUrl, { redirect: "manual" });
      const text = await response.text();
      // The fields that a browser would post.
      if (new URL(authUrl).searchParams.has("response_mode")) return JSON.parse(text);
      const location = response.headers.get("location");
      if (response.status !== 302 || location === null)
        throw new Error(`the provider answered ${response.status} ${text}`);
      return Object.fromEntries(new URL(location).searchParams);
    },
  };
}

/** A cluster whose API at the double reviews tokens. */
export interface Cluster extends Issuer {
  change(settings: Partial<ClusterSettings>): Promise<void>;
}

export async function newCluster(name: string, reviewers: readonly string[]): Promise<Cluster> {
  const issuer = await newIssuer(name);
  let settings: ClusterSettings = { key: await exportJWK(issuer.publicKey), algorithm: "RS256", reviewers };
  const change: Cluster["change"] = async (changed) => {
    settings = { ...settings, ...changed };
    const at = issuer.url.replace(base(), `${base()}/_double/cluster`);
    await (await fetch(at, { method: "PUT", body: JSON.stringify(settings) })).text();
  };
  await change({});
  return { ...issuer, change };
}

/** Claims of a pod's service-account token. */
export const podClaims = (name = "app", namespace = "prod", uid = "0b1f7c3e-uid") => ({
  sub: `system:serviceaccount:${namespace}:${name}`,
  aud: ["sallyport"],
  "kubernetes.io": { namespace, serviceaccount: { name, uid }, pod: { name: `${name}-0`, uid: "pod" } },
});
