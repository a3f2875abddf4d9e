import type { LoginClaims } from "../contracts/cluster-acl.ts";
import type { AuthMethod } from "../contracts/cluster-auth-method.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { mappedClaims } from "./jwt/claim-mappings.ts";
import {
  authorizationUrl,
  type OidcClient,
  providerOf,
  redeemedCode,
  userInfo,
  verifiedIdToken,
} from "./oidc/provider.ts";

/** Logins in a browser by auth methods of type OIDC. */

const clientOf = ({ Config: config }: AuthMethod): OidcClient => ({
  clientId: config.OIDCClientID,
  clientSecret: config.OIDCClientSecret,
});

/** A login that has begun. `verifier` is the secret of PKCE, which every login uses. */
interface BegunLogin {
  readonly redirectUri: string;
  readonly nonce: string;
  readonly state: string;
  readonly verifier: string;
}

/** The URL at the issuer where a person logs in. */
export async function loginUrl(method: AuthMethod, login: BegunLogin): Promise<Result<string>> {
  const provider = await providerOf(method.Config.OIDCDiscoveryURL);
  if (!provider.ok) return provider;
  const scopes = method.Config.OIDCScopes;
  return ok(authorizationUrl(provider.value, clientOf(method), { ...login, scopes }));
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
  const provider = await providerOf(config.OIDCDiscoveryURL);
  if (!provider.ok) return provider;
  // Before the code is sent: that of another issuer must not reach this one.
  if (issuer !== "" && issuer !== provider.value.issuer)
    return refuse("invalid", "the redirect is from another issuer");
  const client = clientOf(method);
  const tokens = await redeemedCode(provider.value, client, { code, redirectUri, verifier });
  if (!tokens.ok) return tokens;
  const verified = await verifiedIdToken(tokens.value, client, config.OIDCDiscoveryURL, {
    issuer: "",
    subject: "",
    nonce,
    maxAge: 0,
    audiences: config.BoundAudiences.length > 0 ? config.BoundAudiences : [client.clientId],
    algorithms: config.SigningAlgs.length > 0 ? config.SigningAlgs : ["RS256"],
    expirationLeeway: config.ExpirationLeeway,
    notBeforeLeeway: config.NotBeforeLeeway,
    clockSkewLeeway: config.ClockSkewLeeway,
  });
  if (!verified.ok) return verified;
  const claims = verified.value;
  const accessToken = tokens.value.access_token;
  const info = config.OIDCDisableUserInfo ? null : await userInfo(provider.value, accessToken, claims["sub"]);
  if (info && !info.ok) return refuse("invalid", `failed to retrieve the user info claims: ${info.message}`);
  const all = { ...claims, ...info?.value, iss: claims["iss"], sub: claims["sub"] };
  return mappedClaims(all, config.ClaimMappings, config.ListClaimMappings);
}
