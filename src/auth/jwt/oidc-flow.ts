import { createHash } from "node:crypto";
import { decodeProtectedHeader } from "jose";
import * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { type JwtConfig, sourceOf } from "./config.ts";
import { type Endpoints, fetchJson, keysOf, refusedUrl } from "./key-sources.ts";
import { hashed, type OidcState } from "./oidc-state.ts";
import type { JwtRole } from "./roles.ts";
import { audiencesOf, type Claims, verifyToken } from "./verify.ts";

/** The authorization code flow with PKCE (https://openid.net/specs/openid-connect-core-1_0.html, RFC 7636). */

const Tokens = z.object({ id_token: z.string().max(65_536), access_token: z.string().max(65_536).default("") });
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** The endpoints of a configuration's provider. */
export async function endpointsOf(config: JwtConfig): Promise<Result<Endpoints>> {
  const source = sourceOf(config);
  const keys = source && (await keysOf(source));
  if (!keys?.ok) return keys ?? refuse("invalid", "no provider is configured");
  const { endpoints } = keys.value;
  return endpoints && endpoints.authorization !== "" && endpoints.token !== ""
    ? ok(endpoints)
    : refuse("invalid", "the discovery document lacks authorization_endpoint or token_endpoint");
}

/**
 * Whether a role allows a redirect URI: exactly as it is registered. Loopback URIs may have any port, because command
 * line clients listen at a free one (RFC 8252, 7.3).
 */
export function isAllowedRedirect(uri: string, allowed: readonly string[]): boolean {
  const url = URL.parse(uri);
  if (url === null || url.hash !== "" || uri.includes("#")) return false;
  if (!LOOPBACK.has(url.hostname)) return allowed.includes(uri);
  return url.username === "" && url.password === "" && allowed.some((one) => withoutPort(one) === withoutPort(uri));
}

function withoutPort(uri: string): string | null {
  const url = URL.parse(uri);
  if (url === null) return null;
  url.port = "";
  return url.href;
}

/** The address at which a person logs in; null when the provider's endpoint must not be used. */
export function authUrl(endpoints: Endpoints, config: JwtConfig, role: JwtRole, state: OidcState, sealed: string) {
  const url = URL.parse(endpoints.authorization);
  if (url === null || refusedUrl(endpoints.authorization) !== null) return null;
  const scopes = ["openid", ...role.oidc_scopes.filter((scope) => scope !== "openid")];
  const parameters = {
    ...{ response_type: "code", client_id: config.oidc_client_id, redirect_uri: state.redirectUri },
    ...{ scope: scopes.join(" "), state: sealed, nonce: state.nonce },
    ...{ code_challenge: hashed(state.verifier), code_challenge_method: "S256" },
    ...(config.oidc_response_mode === "form_post" && { response_mode: "form_post" }),
    ...(role.max_age > 0 && { max_age: String(role.max_age) }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** The tokens that a code stands for. */
export async function exchange(code: string, endpoints: Endpoints, config: JwtConfig, state: OidcState) {
  const { oidc_client_id: id, oidc_client_secret: secret } = config;
  const form = new URLSearchParams({
    ...{ grant_type: "authorization_code", code, redirect_uri: state.redirectUri, code_verifier: state.verifier },
    ...(endpoints.secretInBody && { client_id: id, client_secret: secret }),
  });
  const headers: Record<string, string> = {
    ...{ "Content-Type": "application/x-www-form-urlencoded", Accept: "application/json" },
    // RFC 6749, 2.3.1: both parts are encoded before they are joined.
    ...(!endpoints.secretInBody && { Authorization: `Basic ${btoa(`${encoded(id)}:${encoded(secret)}`)}` }),
  };
  const answer = await fetchJson(endpoints.token, { method: "POST", headers, body: form.toString() });
  if (!answer.ok) return refuse("invalid", `Vault login failed. Error exchanging oidc code: ${answer.message}`);
  const tokens = Tokens.safeParse(answer.value);
  return tokens.success
    ? ok(tokens.data)
    : refuse("invalid", "Token verification failed. No id_token found in response.");
}

const encoded = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1);

/** The verified claims of an ID token, and those of the userinfo endpoint. */
export async function idClaims(
  { id_token: idToken, access_token: accessToken }: z.infer<typeof Tokens>,
  endpoints: Endpoints,
  config: JwtConfig,
  role: JwtRole,
  state: OidcState,
): Promise<Result<Claims>> {
  const verified = await verifyToken(idToken, sourceOf(config) ?? [], {
    issuer: config.bound_issuer,
    subject: role.bound_subject,
    audiences: [config.oidc_client_id],
    algorithms: config.jwt_supported_algs,
    expirationLeeway: role.expiration_leeway,
    notBeforeLeeway: role.not_before_leeway,
    clockSkewLeeway: role.clock_skew_leeway,
  });
  if (!verified.ok) return refuse("invalid", `Token verification failed. ${verified.message}`);
  const claims = verified.value;
  const problem = idTokenProblem(claims, config, role, state) ?? accessTokenProblem(claims, idToken, accessToken);
  if (problem !== null) return refuse("invalid", `Token verification failed. ${problem}`);
  const { nonce: _nonce, ...rest } = claims;
  return ok({ ...(await userinfo(rest, endpoints.userinfo, accessToken)), ...signedClaims(rest) });
}

/** Why an ID token does not answer this login; null when it does (OpenID Connect Core 1.0, 3.1.3.7). */
function idTokenProblem(claims: Claims, config: JwtConfig, role: JwtRole, state: OidcState): string | null {
  if (claims["nonce"] !== state.nonce) return "Invalid ID token nonce.";
  if (typeof claims["sub"] !== "string" || claims["sub"] === "") return "the ID token has no sub claim";
  if (typeof claims["exp"] !== "number" || typeof claims["iat"] !== "number") {
    return "the ID token has no exp or iat claim";
  }
  const audiences = audiencesOf(claims);
  const isForeign = audiences.length > 1 || claims["azp"] !== undefined;
  if (isForeign && claims["azp"] !== config.oidc_client_id) return "invalid authorized party (azp) claim";
  const bound = role.bound_audiences;
  if (bound.length > 0 && !audiences.some((value) => bound.includes(value))) {
    return "invalid audience (aud) claim: audience claim does not match any expected audience";
  }
  const skew = role.clock_skew_leeway < 0 ? 0 : role.clock_skew_leeway || 60;
  const loggedIn = claims["auth_time"];
  if (role.max_age === 0) return null;
  if (typeof loggedIn !== "number") return "the ID token has no auth_time claim, which max_age requires";
  return Date.now() / 1000 > loggedIn + role.max_age + skew ? "the login at the provider is older than max_age" : null;
}

/** Why an access token is not the one that an ID token was issued with; null when it may be (3.1.3.6). */
function accessTokenProblem(claims: Claims, idToken: string, accessToken: string): string | null {
  const expected = claims["at_hash"];
  if (expected === undefined || accessToken === "") return null;
  const { alg = "" } = decodeProtectedHeader(idToken);
  const bits = /\d{3}$/.exec(alg)?.[0] ?? "512";
  const hash = createHash(`sha${bits}`).update(accessToken).digest();
  return hash.subarray(0, hash.length / 2).toString("base64url") === expected ? null : "invalid at_hash claim";
}

const signedClaims = (claims: Claims): Claims =>
  Object.fromEntries(
    ["iss", "sub", "aud", "azp", "exp", "iat", "nbf", "auth_time"]
      .filter((name) => Object.hasOwn(claims, name))
      .map((name) => [name, claims[name]]),
  );

/** The claims with those of the userinfo endpoint. A failure leaves them as they are, as upstream. */
async function userinfo(claims: Claims, url: string, accessToken: string): Promise<Claims> {
  if (url === "" || accessToken === "") return claims;
  const answer = await fetchJson(url, {
    headers: { Authorization: `Bearer ${accessToken}`, Accept: "application/json" },
  });
  if (!answer.ok || !isPlainObject(answer.value) || answer.value["sub"] !== claims["sub"]) return claims;
  return { ...claims, ...answer.value };
}
