import { decodeJwt } from "jose";
import * as z from "zod";
import type { LoginClaims } from "../contracts/cluster-acl.ts";
import {
  AUTH_METHOD_TYPES,
  type AuthMethod,
  type AuthMethodConfig,
  type AuthMethodSettings,
} from "../contracts/cluster-auth-method.ts";
import { goDuration } from "../lib/go-duration.ts";
import { type Result, refuse } from "../lib/result.ts";
import { readTemplate, variablesOf } from "../lib/template.ts";
import { caseless, echoed, flag, MAX_DURATION, nanoseconds } from "../platform/http/fields.ts";
import { refusedUrl } from "../providers/outbound-url.ts";
import { mappedClaims } from "./jwt/claim-mappings.ts";
import { NO_CA } from "./jwt/config.ts";
import { ALGORITHMS, type Keys, publicKeyProblem, verifyToken } from "./jwt/verify.ts";
import { isRedirectUri } from "./oidc/redirects.ts";

/** Auth methods of the cluster API: their bodies, and the verification of their callers. */

const text = (most = 1_024) => z.string().max(most).nullish();
const texts = (most = 1_024) => z.array(z.string().max(most)).max(64).nullish();
const leeway = () => nanoseconds({ least: -MAX_DURATION }).nullish();
const mappings = () =>
  z
    .record(z.string().max(512), z.string().min(1).max(128))
    .refine((map) => Object.keys(map).length <= 64, "at most 64 claims")
    .nullish();

const ConfigBody = caseless(
  z.object({
    JWTValidationPubKeys: texts(16_384),
    JWKSURL: text(),
    JWKSCACert: z.union([z.literal(""), z.null()], NO_CA).optional(),
    OIDCDiscoveryURL: text(),
    OIDCClientID: text(),
    OIDCClientSecret: text(),
    OIDCClientAssertion: z.null("must be null: client assertions are not supported").optional(),
    OIDCEnablePKCE: flag().nullish(),
    OIDCDisableUserInfo: flag().nullish(),
    OIDCScopes: texts(),
    BoundAudiences: texts(),
    BoundIssuer: texts(),
    AllowedRedirectURIs: texts(),
    DiscoveryCaPem: z.array(z.string()).max(0, NO_CA).nullish(),
    SigningAlgs: texts(),
    ExpirationLeeway: leeway(),
    NotBeforeLeeway: leeway(),
    ClockSkewLeeway: leeway(),
    ClaimMappings: mappings(),
    ListClaimMappings: mappings(),
    VerboseLogging: flag().nullish(),
  }),
);

/** Body of `PUT acl/auth-method` (https://developer.hashicorp.com/nomad/api-docs/acl/auth-methods). */
export const AuthMethodBody = caseless(
  z.object({
    Name: z.string().max(256).default(""),
    Type: z.string().max(64).nullish(),
    TokenLocality: z.string().max(64).nullish(),
    TokenNameFormat: text(),
    MaxTokenTTL: nanoseconds().nullish(),
    Default: flag().nullish(),
    Config: ConfigBody.nullish(),
    ...echoed("Hash", "CreateTime", "ModifyTime", "CreateIndex", "ModifyIndex"),
  }),
);
export type AuthMethodBody = z.output<typeof AuthMethodBody>;

// biome-ignore lint/suspicious/noTemplateCurlyInString: the format of upstream
const DEFAULT_NAME_FORMAT = "${auth_method_type}-${auth_method_name}";
const NAME = /^[a-zA-Z0-9-]{1,128}$/;
/** Bounds of `MaxTokenTTL`, in seconds: those of every token of the cluster API. */
const [MIN_TTL, MAX_TTL] = [60, 86_400];

const configOf = (body: z.output<typeof ConfigBody>): AuthMethodConfig => ({
  JWTValidationPubKeys: body.JWTValidationPubKeys ?? [],
  JWKSURL: body.JWKSURL ?? "",
  OIDCDiscoveryURL: body.OIDCDiscoveryURL ?? "",
  OIDCClientID: body.OIDCClientID ?? "",
  OIDCClientSecret: body.OIDCClientSecret ?? "",
  OIDCEnablePKCE: body.OIDCEnablePKCE ?? false,
  OIDCDisableUserInfo: body.OIDCDisableUserInfo ?? false,
  OIDCScopes: body.OIDCScopes ?? [],
  BoundAudiences: body.BoundAudiences ?? [],
  BoundIssuer: body.BoundIssuer ?? [],
  AllowedRedirectURIs: body.AllowedRedirectURIs ?? [],
  SigningAlgs: body.SigningAlgs ?? [],
  ExpirationLeeway: body.ExpirationLeeway ?? 0,
  NotBeforeLeeway: body.NotBeforeLeeway ?? 0,
  ClockSkewLeeway: body.ClockSkewLeeway ?? 0,
  ClaimMappings: body.ClaimMappings ?? {},
  ListClaimMappings: body.ListClaimMappings ?? {},
  VerboseLogging: body.VerboseLogging ?? false,
});

/**
 * The settings of a body. As upstream, an update keeps what the body leaves empty, except `Default`.
 * @param before the stored method; null for a new one
 * @returns a refusal when the method cannot be stored, with upstream's text where there is one
 */
export async function authMethodOf(
  body: AuthMethodBody,
  before: AuthMethod | null,
): Promise<Result<AuthMethodSettings>> {
  const invalid = (why: string) => refuse("invalid", `auth method 0 invalid: ${why}`);
  const given = body.Config ? configOf(body.Config) : null;
  const config = given ?? before?.Config;
  if (!config) return invalid("invalid config: missing auth method Config");
  const settings = {
    Name: body.Name,
    Type: body.Type || (before?.Type ?? ""),
    TokenLocality: body.TokenLocality || (before?.TokenLocality ?? ""),
    TokenNameFormat: body.TokenNameFormat || (before?.TokenNameFormat ?? DEFAULT_NAME_FORMAT),
    MaxTokenTTL: body.MaxTokenTTL || (before?.MaxTokenTTL ?? 0),
    Default: body.Default ?? false,
    Config: config,
  };
  const problem = settingsProblem(settings) ?? (await configProblem(settings));
  return problem === null ? { ok: true, value: settings } : invalid(problem);
}

/** Why a method cannot be stored, apart from its configuration; null when it can. */
function settingsProblem({ Name, Type, TokenLocality, TokenNameFormat, MaxTokenTTL }: AuthMethodSettings) {
  if (!NAME.test(Name)) return `invalid name '${Name.slice(0, 130)}'`;
  if (TokenLocality !== "local" && TokenLocality !== "global") return `invalid token locality '${TokenLocality}'`;
  if (!AUTH_METHOD_TYPES.some((type) => type === Type)) return `invalid token type '${Type}'`;
  if (MaxTokenTTL < MIN_TTL || MaxTokenTTL > MAX_TTL) {
    const between = `between ${goDuration(MIN_TTL)} and ${goDuration(MAX_TTL)}`;
    return `invalid MaxTokenTTL value '${goDuration(MaxTokenTTL)}' (should be ${between})`;
  }
  const template = readTemplate(TokenNameFormat);
  const isKnown = (name: string) => /^(auth_method_(type|name)|value\..+)$/.test(name);
  if (!template || !variablesOf(template).every(isKnown)) {
    return "TokenNameFormat: only auth_method_type, auth_method_name and value.<name> can be interpolated";
  }
  return null;
}

/** Why the configuration of a method cannot be stored; null when it can. Fields of the other type are kept and shown. */
async function configProblem({ Type, Config: config }: AuthMethodSettings): Promise<string | null> {
  const problem = Type === "OIDC" ? oidcProblem(config) : await jwtProblem(config);
  if (problem !== null) return `invalid config: ${problem}`;
  for (const field of ["JWKSURL", "OIDCDiscoveryURL"] as const) {
    const refused = config[field] === "" ? null : refusedUrl(config[field]);
    if (refused !== null) return `invalid config: ${field}: ${refused}`;
  }
  const known: readonly string[] = ALGORITHMS;
  const isKnown = config.SigningAlgs.every((name) => known.includes(name));
  return isKnown ? null : `invalid config: SigningAlgs: the supported ones are ${ALGORITHMS.join(", ")}`;
}

async function jwtProblem(config: AuthMethodConfig): Promise<string | null> {
  if (config.JWTValidationPubKeys.length === 0 && config.JWKSURL === "" && config.OIDCDiscoveryURL === "") {
    return "JWT auth method requires either OIDCDiscoveryURL, or JWKS URL, or JWTValidationPubKeys set";
  }
  for (const pem of config.JWTValidationPubKeys) {
    const problem = await publicKeyProblem(pem);
    if (problem !== null) return `JWTValidationPubKeys: error parsing public key${problem}`;
  }
  return null;
}

function oidcProblem(config: AuthMethodConfig): string | null {
  const missing = (["OIDCDiscoveryURL", "OIDCClientID"] as const).find((field) => config[field] === "");
  if (missing !== undefined) return `missing ${missing}`;
  return config.AllowedRedirectURIs.every(isRedirectUri)
    ? null
    : "AllowedRedirectURIs: must be URLs that begin with https://, or with http:// on the caller's own machine";
}

/** The source of the keys. Of several, as upstream, the first of given keys, `JWKSURL` and `OIDCDiscoveryURL` is used. */
const keysOf = ({ JWTValidationPubKeys: pems, JWKSURL: jwks, OIDCDiscoveryURL: discovery }: AuthMethodConfig): Keys => {
  if (pems.length > 0) return pems;
  return jwks === "" ? { kind: "discovery", url: discovery } : { kind: "jwks", url: jwks };
};

/** The claims of a caller's token, by the names of the method's mappings. Refusals never hold a claim's value. */
export async function verifiedClaims(token: string, { Config: config }: AuthMethod): Promise<Result<LoginClaims>> {
  const issuer = issuerOf(token, config.BoundIssuer);
  if (issuer === null) return refuse("invalid", "invalid JWT issuer");
  const verified = await verifyToken(token, keysOf(config), {
    issuer,
    subject: "",
    audiences: config.BoundAudiences,
    algorithms: config.SigningAlgs.length > 0 ? config.SigningAlgs : ["RS256"],
    expirationLeeway: config.ExpirationLeeway,
    notBeforeLeeway: config.NotBeforeLeeway,
    clockSkewLeeway: config.ClockSkewLeeway,
  });
  return verified.ok ? mappedClaims(verified.value, config.ClaimMappings, config.ListClaimMappings) : verified;
}

/** The bound issuer that a token claims, which its signature must confirm; empty without bounds, null for another. */
function issuerOf(token: string, bound: readonly string[]): string | null {
  if (bound.length === 0) return "";
  try {
    return bound.find((issuer) => issuer === decodeJwt(token).iss) ?? null;
  } catch {
    return null;
  }
}
