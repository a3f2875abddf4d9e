import * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { fetchJson, refusedUrl } from "../jwt/key-sources.ts";
import { audiencesOf, type Claims, verifyToken } from "../jwt/verify.ts";

/*
 * The authorization code flow of OpenID Connect with PKCE, as a confidential or public client of one issuer
 * (https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth, RFC 7636). Documents of issuers are cached per
 * isolate; an issuer is asked at most once per `RETRY_MS` while it fails.
 */

/** This service as a client of an issuer. */
export interface OidcClient {
  /** The issuer, which is also where its discovery document is. */
  readonly issuer: string;
  readonly clientId: string;
  /** Empty for a public client. */
  readonly clientSecret: string;
  /** Empty: RS256. */
  readonly algorithms: readonly string[];
}

const Metadata = z.object({
  issuer: z.string(),
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  userinfo_endpoint: z.string().optional(),
  token_endpoint_auth_methods_supported: z.array(z.string()).optional(),
});
/** The discovery document of an issuer. */
export type Metadata = z.infer<typeof Metadata>;

const Tokens = z.object({ id_token: z.string(), access_token: z.string().optional() });
type Tokens = z.infer<typeof Tokens>;

interface Cached {
  metadata: Result<Metadata>;
  at: number;
}

const KEEP_MS = 10 * 60_000;
const RETRY_MS = 10_000;
const MAX_ISSUERS = 256;
const cache = new Map<string, Cached>();

/** The discovery document of an issuer, from the cache while it is fresh. */
export async function metadataOf(issuer: string): Promise<Result<Metadata>> {
  const known = cache.get(issuer);
  const now = Date.now();
  if (known && now - known.at < (known.metadata.ok ? KEEP_MS : RETRY_MS)) return known.metadata;
  const metadata = await fetchMetadata(issuer);
  const [oldest] = cache.keys();
  if (!known && cache.size >= MAX_ISSUERS && oldest !== undefined) cache.delete(oldest);
  cache.set(issuer, { metadata, at: now });
  return metadata;
}

async function fetchMetadata(issuer: string): Promise<Result<Metadata>> {
  const answer = await fetchJson(`${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`);
  if (!answer.ok) return answer;
  const document = Metadata.safeParse(answer.value);
  if (!document.success) return refuse("invalid", "the discovery document lacks endpoints of the code flow");
  if (document.data.issuer !== issuer) return refuse("invalid", "the discovery document names another issuer");
  const refused = refusedUrl(document.data.authorization_endpoint);
  return refused === null ? ok(document.data) : refuse("invalid", `authorization_endpoint ${refused}`);
}

/** A login that is about to begin. `verifier` is the secret of PKCE; only its digest is in the URL. */
export interface Authorization {
  readonly redirectUri: string;
  readonly scopes: readonly string[];
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** The URL at the issuer where a person logs in. */
export async function authorizationUrl(
  { authorization_endpoint: endpoint }: Metadata,
  { clientId }: OidcClient,
  { redirectUri, scopes, state, nonce, verifier }: Authorization,
): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const url = new URL(endpoint);
  const parameters = {
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: [...new Set(["openid", ...scopes])].join(" "),
    state,
    nonce,
    code_challenge: Buffer.from(digest).toString("base64url"),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.toString();
}

/** A code that the issuer gave to the browser, and what the login began with. */
export interface Redemption {
  readonly code: string;
  readonly redirectUri: string;
  readonly nonce: string;
  readonly verifier: string;
  /** Accepted audiences; empty: the client. */
  readonly audiences: readonly string[];
  /** Seconds: 0 = upstream's default, negative = none. */
  readonly leeways: { readonly expiration: number; readonly notBefore: number; readonly clockSkew: number };
}

/** The verified claims of the ID token that a code is redeemed for, and the access token. */
export async function redeemedCode(
  metadata: Metadata,
  client: OidcClient,
  redemption: Redemption,
): Promise<Result<{ claims: Claims; accessToken: string }>> {
  const tokens = await redeem(metadata, client, redemption);
  if (!tokens.ok) return tokens;
  const { leeways } = redemption;
  const audiences = redemption.audiences.length > 0 ? redemption.audiences : [client.clientId];
  const verified = await verifyToken(
    tokens.value.id_token,
    { kind: "discovery", url: client.issuer },
    {
      issuer: metadata.issuer,
      subject: "",
      audiences,
      algorithms: client.algorithms.length > 0 ? client.algorithms : ["RS256"],
      expirationLeeway: leeways.expiration,
      notBeforeLeeway: leeways.notBefore,
      clockSkewLeeway: leeways.clockSkew,
    },
  );
  if (!verified.ok) return verified;
  const problem = idTokenProblem(verified.value, client, redemption);
  if (problem !== null) return refuse("invalid", problem);
  return ok({ claims: verified.value, accessToken: tokens.value.access_token ?? "" });
}

/** Rules of ID tokens beyond those of every signed token (OpenID Connect Core 1.0, 3.1.3.7). */
function idTokenProblem(claims: Claims, { clientId }: OidcClient, { nonce }: Redemption): string | null {
  const { azp, exp, sub } = claims;
  if (typeof sub !== "string" || sub === "") return "the ID token has no subject (sub) claim";
  if (typeof exp !== "number") return "the ID token has no expiration time (exp) claim";
  if (claims["nonce"] !== nonce) return "invalid nonce claim";
  if (azp !== undefined && azp !== clientId) return "invalid authorized party (azp) claim";
  return audiencesOf(claims).length > 1 && azp === undefined
    ? "the ID token has no authorized party (azp) claim"
    : null;
}

async function redeem(metadata: Metadata, client: OidcClient, redemption: Redemption): Promise<Result<Tokens>> {
  const { clientId, clientSecret } = client;
  const methods = metadata.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  const isBasic = clientSecret !== "" && (methods.includes("client_secret_basic") || methods.length === 0);
  const body = new URLSearchParams({
    grant_type: "authorization_code",
    code: redemption.code,
    redirect_uri: redemption.redirectUri,
    code_verifier: redemption.verifier,
    ...(!isBasic && { client_id: clientId }),
    ...(!isBasic && clientSecret !== "" && { client_secret: clientSecret }),
  });
  const secret = Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString("base64");
  const answer = await fetchJson(metadata.token_endpoint, {
    method: "POST",
    body: body.toString(),
    headers: {
      "Content-Type": "application/x-www-form-urlencoded",
      Accept: "application/json",
      ...(isBasic && { Authorization: `Basic ${secret}` }),
    },
  });
  if (!answer.ok) return answer;
  const tokens = Tokens.safeParse(answer.value);
  return tokens.success ? ok(tokens.data) : refuse("invalid", "the issuer's answer has no ID token");
}

/** RFC 6749, 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1);

/**
 * The claims of the user info endpoint, which must be about the subject of the ID token; none when the issuer has no such
 * endpoint or gave no access token.
 */
export async function userInfo(metadata: Metadata, accessToken: string, subject: unknown): Promise<Result<Claims>> {
  const { userinfo_endpoint: endpoint } = metadata;
  if (endpoint === undefined || accessToken === "") return ok({});
  const answer = await fetchJson(endpoint, { headers: { Authorization: `Bearer ${accessToken}` } });
  if (!answer.ok) return answer;
  if (!isPlainObject(answer.value)) return refuse("invalid", "the user info is no object");
  return answer.value["sub"] === subject
    ? ok(answer.value)
    : refuse("invalid", "the user info is about another subject");
}
