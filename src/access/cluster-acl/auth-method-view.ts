import { type AuthMethod, REDACTED } from "../../contracts/cluster-auth-method.ts";
import { durationText, orNull } from "./cluster-acl.ts";

const mapOrNull = (map: Readonly<Record<string, string>>) => (Object.keys(map).length > 0 ? map : null);

/** An auth method as answers and events show it (https://developer.hashicorp.com/nomad/api-docs/acl/auth-methods). */
export function authMethodView({ version: _version, Config: config, ...method }: AuthMethod) {
  return {
    ...method,
    MaxTokenTTL: durationText(method.MaxTokenTTL),
    Config: {
      ...config,
      JWTValidationPubKeys: orNull(config.JWTValidationPubKeys),
      OIDCClientSecret: config.OIDCClientSecret === "" ? "" : REDACTED,
      OIDCClientAssertion: null,
      OIDCScopes: orNull(config.OIDCScopes),
      BoundAudiences: orNull(config.BoundAudiences),
      BoundIssuer: orNull(config.BoundIssuer),
      AllowedRedirectURIs: orNull(config.AllowedRedirectURIs),
      DiscoveryCaPem: null,
      JWKSCACert: "",
      SigningAlgs: orNull(config.SigningAlgs),
      ExpirationLeeway: durationText(config.ExpirationLeeway),
      NotBeforeLeeway: durationText(config.NotBeforeLeeway),
      ClockSkewLeeway: durationText(config.ClockSkewLeeway),
      ClaimMappings: mapOrNull(config.ClaimMappings),
      ListClaimMappings: mapOrNull(config.ListClaimMappings),
    },
  };
}
