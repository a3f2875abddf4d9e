import { ok, type Result, refuse } from "../../lib/result.ts";
import {
  authorizationUrl,
  type OidcClient,
  type Provider,
  providerOf,
  redeemedCode,
  userInfo,
  verifiedIdToken,
} from "../oidc/provider.ts";
import type { JwtConfig } from "./config.ts";
import type { OidcState } from "./oidc-state.ts";
import type { JwtRole } from "./roles.ts";
import { audiencesOf, type Claims } from "./verify.ts";

/** Logins in a browser by roles of type `oidc`, with upstream's texts. */

const clientOf = ({ oidc_client_id: clientId, oidc_client_secret: clientSecret }: JwtConfig): OidcClient => ({
  clientId,
  clientSecret,
});

/** The provider of a configuration. */
export const providerOfConfig = (config: JwtConfig): Promise<Result<Provider>> => providerOf(config.oidc_discovery_url);

/** The address at which a person logs in. @param sealed the `state` parameter */
export const loginUrl = (
  provider: Provider,
  config: JwtConfig,
  role: JwtRole,
  { redirectUri, nonce, verifier }: OidcState,
  sealed: string,
): string =>
  authorizationUrl(provider, clientOf(config), {
    redirectUri,
    nonce,
    verifier,
    state: sealed,
    scopes: role.oidc_scopes,
    maxAge: role.max_age,
    responseMode: config.oidc_response_mode === "form_post" ? "form_post" : "",
  });

/** The verified claims of the person whose login a code ends, with those of the user info endpoint. */
export async function claimsOfCode(
  code: string,
  provider: Provider,
  config: JwtConfig,
  role: JwtRole,
  state: OidcState,
): Promise<Result<Claims>> {
  const tokens = await redeemedCode(provider, clientOf(config), { code, ...state });
  if (!tokens.ok) return refuse("invalid", `Vault login failed. Error exchanging oidc code: ${tokens.message}`);
  if (tokens.value.id_token === "") {
    return refuse("invalid", "Token verification failed. No id_token found in response.");
  }
  const verified = await verifiedIdToken(tokens.value, clientOf(config), config.oidc_discovery_url, {
    issuer: config.bound_issuer,
    subject: role.bound_subject,
    audiences: [config.oidc_client_id],
    algorithms: config.jwt_supported_algs,
    expirationLeeway: role.expiration_leeway,
    notBeforeLeeway: role.not_before_leeway,
    clockSkewLeeway: role.clock_skew_leeway,
    nonce: state.nonce,
    maxAge: role.max_age,
  });
  if (!verified.ok) return refuse("invalid", `Token verification failed. ${verified.message}`);
  const { nonce: _nonce, ...claims } = verified.value;
  const bound = role.bound_audiences;
  if (bound.length > 0 && !audiencesOf(claims).some((value) => bound.includes(value))) {
    return refuse(
      "invalid",
      "Token verification failed. invalid audience (aud) claim: audience claim does not match any expected audience",
    );
  }
  // A failure leaves the claims as they are, as upstream.
  const info = await userInfo(provider, tokens.value.access_token, claims["sub"]);
  return ok({ ...claims, ...(info.ok && info.value), ...signedClaims(claims) });
}

/** Claims that only the ID token states. */
const signedClaims = (claims: Claims): Claims =>
  Object.fromEntries(
    ["iss", "sub", "aud", "azp", "exp", "iat", "nbf", "auth_time"]
      .filter((name) => Object.hasOwn(claims, name))
      .map((name) => [name, claims[name]]),
  );
