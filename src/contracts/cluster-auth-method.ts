/** Types of auth methods of the cluster API. */
export const AUTH_METHOD_TYPES = ["OIDC", "JWT"] as const;

/** How an auth method verifies its callers. Leeways in seconds: 0 = upstream's default, negative = none. */
export interface AuthMethodConfig {
  readonly JWTValidationPubKeys: readonly string[];
  readonly JWKSURL: string;
  readonly OIDCDiscoveryURL: string;
  readonly OIDCClientID: string;
  readonly OIDCClientSecret: string;
  readonly OIDCEnablePKCE: boolean;
  readonly OIDCDisableUserInfo: boolean;
  readonly OIDCScopes: readonly string[];
  readonly BoundAudiences: readonly string[];
  readonly BoundIssuer: readonly string[];
  readonly AllowedRedirectURIs: readonly string[];
  readonly SigningAlgs: readonly string[];
  readonly ExpirationLeeway: number;
  readonly NotBeforeLeeway: number;
  readonly ClockSkewLeeway: number;
  readonly ClaimMappings: Readonly<Record<string, string>>;
  readonly ListClaimMappings: Readonly<Record<string, string>>;
  readonly VerboseLogging: boolean;
}

/** An auth method of the cluster API as a request sets it. */
export interface AuthMethodSettings {
  readonly Name: string;
  readonly Type: string;
  readonly TokenLocality: string;
  readonly TokenNameFormat: string;
  /** Seconds. */
  readonly MaxTokenTTL: number;
  readonly Default: boolean;
  readonly Config: AuthMethodConfig;
}

/** A stored auth method. Its client secret is in it: answers hold `authMethodView`. */
export interface AuthMethod extends AuthMethodSettings {
  /** Changes with every write. */
  readonly version: string;
  readonly Hash: string;
  /** RFC 3339. */
  readonly CreateTime: string;
  readonly ModifyTime: string;
  readonly CreateIndex: number | null;
  readonly ModifyIndex: number | null;
}

/** An auth method in lists, which need no token. */
export type AuthMethodStub = Pick<AuthMethod, "Name" | "Type" | "Default" | "Hash" | "CreateIndex" | "ModifyIndex">;

/** Stands in answers for a client secret; a write with it keeps the stored one. */
export const REDACTED = "redacted";
