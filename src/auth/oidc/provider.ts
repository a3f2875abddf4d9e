import { createHash } from "node:crypto";
import { decodeProtectedHeader } from "jose";
import * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refusedUrl } from "../../providers/outbound-url.ts";
import { type Endpoints, fetchJson, keysOf } from "../jwt/key-sources.ts";
import { audiencesOf, type Claims, type Expected, verifyToken } from "../jwt/verify.ts";

/*
 * The authorization code flow of OpenID Connect with PKCE, as a confidential or public client of one provider
 * (https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth, RFC 7636).
 */

/** A provider by its discovery document. */
export interface Provider extends Endpoints {
  readonly issuer: string;
}

/** This service as a client of a provider. */
export interface OidcClient {
  readonly clientId: string;
  /** Empty for a public client. */
  readonly clientSecret: string;
}

const Tokens = z.object({
  id_token: z.string().max(65_536).default(""),
  access_token: z.string().max(65_536).default(""),
});
/** The answer to a code. Empty texts for tokens that it lacks. */
type Tokens = z.infer<typeof Tokens>;

/** The provider at a discovery URL, which is its issuer. Cached with its keys. */
export async function providerOf(url: string): Promise<Result<Provider>> {
  const keys = await keysOf({ kind: "discovery", url });
  if (!keys.ok) return keys;
  const { issuer, endpoints } = keys.value;
  if (issuer === null || !endpoints || endpoints.authorization === "" || endpoints.token === "") {
    return refuse("invalid", "the discovery document lacks authorization_endpoint or token_endpoint");
  }
  const refused = refusedUrl(endpoints.authorization);
  return refused === null ? ok({ issuer, ...endpoints }) : refuse("invalid", `authorization_endpoint ${refused}`);
}

/** A login that is about to begin. `verifier` is the secret of PKCE; only its digest is in the URL. */
interface Authorization {
  readonly redirectUri: string;
  readonly scopes: readonly string[];
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** `form_post`: the provider answers with a form. Empty: with the query of the redirect. */
  readonly responseMode?: string;
  /** Seconds since the person last logged in at the provider; 0 = any. */
  readonly maxAge?: number;
}

/** The URL at the provider where a person logs in. */
export function authorizationUrl({ authorization }: Provider, { clientId }: OidcClient, login: Authorization): string {
  const { redirectUri, scopes, state, nonce, verifier, responseMode = "", maxAge = 0 } = login;
  const url = new URL(authorization);
  const parameters = {
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: [...new Set(["openid", ...scopes])].join(" "),
    state,
    nonce,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
    ...(responseMode !== "" && { response_mode: responseMode }),
    ...(maxAge > 0 && { max_age: String(maxAge) }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** A code that the provider gave to the browser, and what the login began with. */
interface Redemption {
  readonly code: string;
  readonly redirectUri: string;
  readonly verifier: string;
}

/** The tokens that a code is redeemed for. */
export async function redeemedCode(
  { token, secretInBody }: Provider,
  { clientId, clientSecret }: OidcClient,
  { code, redirectUri, verifier }: Redemption,
): Promise<Result<Tokens>> {
  const isPublic = clientSecret === "";
  const form = new URLSearchParams({
    grant_type: "authorization_code",
    code,
    redirect_uri: redirectUri,
    code_verifier: verifier,
    ...((isPublic || secretInBody) && { client_id: clientId }),
    ...(!isPublic && secretInBody && { client_secret: clientSecret }),
  });
  // RFC 6749, 2.3.1: both parts are encoded before they are joined.
  const basic = Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString("base64");
  const headers: Record<string, string> = {
    "Content-Type": "application/x-www-form-urlencoded",
    Accept: "application/json",
    ...(!isPublic && !secretInBody && { Authorization: `Basic ${basic}` }),
  };
  const answer = await fetchJson(token, { method: "POST", headers, body: form.toString() });
  if (!answer.ok) return answer;
  const tokens = Tokens.safeParse(answer.value);
  return tokens.success ? ok(tokens.data) : refuse("invalid", "the issuer's answer has no tokens");
}

const formEncoded = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1);

/** Requirements of the ID token of a login. */
interface ExpectedIdToken extends Expected {
  readonly nonce: string;
  /** Seconds since the person last logged in at the provider; 0 = any. */
  readonly maxAge: number;
}

/**
 * The verified claims of the ID token of a login (OpenID Connect Core 1.0, 3.1.3.7).
 * @param issuerUrl of the provider, whose keys have signed the token
 */
export async function verifiedIdToken(
  { id_token: idToken, access_token: accessToken }: Tokens,
  { clientId }: OidcClient,
  issuerUrl: string,
  expected: ExpectedIdToken,
): Promise<Result<Claims>> {
  if (idToken === "") return refuse("invalid", "the issuer's answer has no ID token");
  const verified = await verifyToken(idToken, { kind: "discovery", url: issuerUrl }, expected);
  if (!verified.ok) return verified;
  const claims = verified.value;
  const problem =
    idTokenProblem(claims, clientId, expected) ??
    ageProblem(claims, expected) ??
    accessTokenProblem(claims, idToken, accessToken);
  return problem === null ? ok(claims) : refuse("invalid", problem);
}

/** Why an ID token does not answer a login, beyond the rules of every signed token; null when it does. */
function idTokenProblem(claims: Claims, clientId: string, { nonce }: ExpectedIdToken): string | null {
  const { azp, exp, iat, sub } = claims;
  if (claims["nonce"] !== nonce) return "Invalid ID token nonce.";
  if (typeof sub !== "string" || sub === "") return "the ID token has no sub claim";
  if (typeof exp !== "number" || typeof iat !== "number") return "the ID token has no exp or iat claim";
  const isForeign = audiencesOf(claims).length > 1 || azp !== undefined;
  return isForeign && azp !== clientId ? "invalid authorized party (azp) claim" : null;
}

/** Why a login at the provider is too old; null when it is not. */
function ageProblem({ auth_time: loggedIn }: Claims, { maxAge, clockSkewLeeway }: ExpectedIdToken): string | null {
  if (maxAge === 0) return null;
  if (typeof loggedIn !== "number") return "the ID token has no auth_time claim, which max_age requires";
  const skew = clockSkewLeeway < 0 ? 0 : clockSkewLeeway || 60;
  return Date.now() / 1000 > loggedIn + maxAge + skew ? "the login at the provider is older than max_age" : null;
}

/** Why an access token is not the one that an ID token was issued with; null when it may be (3.1.3.6). */
function accessTokenProblem({ at_hash: expected }: Claims, idToken: string, accessToken: string): string | null {
  if (expected === undefined || accessToken === "") return null;
  const { alg = "" } = decodeProtectedHeader(idToken);
  const bits = /\d{3}$/.exec(alg)?.[0] ?? "512";
  const hash = createHash(`sha${bits}`).update(accessToken).digest();
  return hash.subarray(0, hash.length / 2).toString("base64url") === expected ? null : "invalid at_hash claim";
}

/**
 * The claims of the user info endpoint, which must be about the subject of the ID token; none when the provider has no
 * such endpoint or gave no access token.
 */
export async function userInfo(
  { userinfo: endpoint }: Provider,
  accessToken: string,
  subject: unknown,
): Promise<Result<Claims>> {
  if (endpoint === "" || accessToken === "") return ok({});
  const answer = await fetchJson(endpoint, {
    headers: { Authorization: `Bearer ${accessToken}`, Accept: "application/json" },
  });
  if (!answer.ok) return answer;
  if (!isPlainObject(answer.value)) return refuse("invalid", "the user info is no object");
  return answer.value["sub"] === subject
    ? ok(answer.value)
    : refuse("invalid", "the user info is about another subject");
}
