import type { LoginClaims } from "../contracts/cluster-acl.ts";
import type { AuthMethod } from "../contracts/cluster-auth-method.ts";
import { type Result, refuse } from "../lib/result.ts";
import { mappedClaims } from "./jwt/claim-mappings.ts";
import { authorizationUrl, metadataOf, type OidcClient, redeemedCode, userInfo } from "./oidc/provider.ts";

/** Logins in a browser by auth methods of type OIDC. */

const clientOf = ({ Config: config }: AuthMethod): OidcClient => ({
  issuer: config.OIDCDiscoveryURL,
  clientId: config.OIDCClientID,
  clientSecret: config.OIDCClientSecret,
  algorithms: config.SigningAlgs,
});

/** A login that has begun. `verifier` is the secret of PKCE, which every login uses. */
export interface BegunLogin {
  readonly redirectUri: string;
  readonly nonce: string;
  readonly state: string;
  readonly verifier: string;
}

/** The URL at the issuer where a person logs in. */
export async function loginUrl(method: AuthMethod, login: BegunLogin): Promise<Result<string>> {
  const metadata = await metadataOf(method.Config.OIDCDiscoveryURL);
  if (!metadata.ok) return metadata;
  const scopes = method.Config.OIDCScopes;
  return { ok: true, value: await authorizationUrl(metadata.value, clientOf(method), { ...login, scopes }) };
}

/**
 * The claims of a person, by the names of the method's mappings: those of the ID token, and those of the user info unless
 * the method turns it off. Issuer and subject are those of the ID token.
 * @param redirect parameters of the redirect; the issuer (RFC 9207) is empty where the client does not pass it on
 */
export async function redeemedClaims(
  method: AuthMethod,
  { code, issuer }: { readonly code: string; readonly issuer: string },
  { redirectUri, nonce, verifier }: Omit<BegunLogin, "state">,
): Promise<Result<LoginClaims>> {
  const { Config: config } = method;
  const metadata = await metadataOf(config.OIDCDiscoveryURL);
  if (!metadata.ok) return metadata;
  // Before the code is sent: that of another issuer must not reach this one.
  if (issuer !== "" && issuer !== metadata.value.issuer)
    return refuse("invalid", "the redirect is from another issuer");
  const redeemed = await redeemedCode(metadata.value, clientOf(method), {
    ...{ code, redirectUri, nonce, verifier, audiences: config.BoundAudiences },
    leeways: {
      expiration: config.ExpirationLeeway,
      notBefore: config.NotBeforeLeeway,
      clockSkew: config.ClockSkewLeeway,
    },
  });
  if (!redeemed.ok) return redeemed;
  const { claims, accessToken } = redeemed.value;
  const info = config.OIDCDisableUserInfo ? null : await userInfo(metadata.value, accessToken, claims["sub"]);
  if (info && !info.ok) return refuse("invalid", `failed to retrieve the user info claims: ${info.message}`);
  const all = { ...claims, ...info?.value, iss: claims["iss"], sub: claims["sub"] };
  return mappedClaims(all, config.ClaimMappings, config.ListClaimMappings);
}
