import * as z from "zod";
import { Auth } from "../../wire/auth.ts";
import { seconds, texts } from "../../wire/shapes.ts";
import { data, group, type Operation } from "../operation.ts";

const names = z.array(z.string()).optional();
const config = {
  default_lease_ttl: seconds,
  max_lease_ttl: seconds,
  force_no_cache: z.boolean(),
  token_type: z.string(),
  listing_visibility: z.string().optional(),
  user_lockout_config: z
    .object({
      lockout_threshold: z.int(),
      lockout_duration: seconds,
      lockout_counter_reset_duration: seconds,
      lockout_disable: z.boolean(),
    })
    .optional(),
  passthrough_request_headers: names,
  allowed_response_headers: names,
  audit_non_hmac_request_keys: names,
  audit_non_hmac_response_keys: names,
};

/** Fields of every mount. */
export const mountFields = {
  uuid: z.string(),
  local: z.boolean(),
  seal_wrap: z.boolean(),
  external_entropy_access: z.boolean(),
  options: texts.nullable(),
  plugin_version: z.string(),
  running_plugin_version: z.string(),
  running_sha256: z.string(),
  deprecation_status: z.string(),
};
const mount = {
  type: z.string(),
  description: z.string(),
  accessor: z.string(),
  ...mountFields,
  config: z.object(config),
};
export const AuthMount = z.object(mount).meta({ id: "AuthMount" });

const Tuning = z.object({
  ...config,
  description: z.string(),
  options: texts.nullable().optional(),
});

export const TokenSettings = z
  .object({
    token_ttl: seconds,
    token_max_ttl: seconds,
    token_explicit_max_ttl: seconds,
    token_period: seconds,
    token_policies: z.array(z.string()),
    token_bound_cidrs: z.array(z.string()),
    token_no_default_policy: z.boolean(),
    token_num_uses: z.int(),
    token_type: z.string(),
    alias_metadata: z.record(z.string(), z.string()),
    ttl: seconds.optional(),
    max_ttl: seconds.optional(),
    period: seconds.optional(),
    policies: names,
    bound_cidrs: names,
    num_uses: z.int().optional(),
  })
  .meta({ id: "TokenSettings" });

/** Answer of a login. */
export const loggedIn = {
  200: { kind: "envelope", description: "The token of the login.", parts: { auth: Auth } } as const,
};

const tuning = {
  token_type:
    "The type of tokens that logins get: `service` or `batch` for all, or a default for roles that name none.",
  user_lockout_config: "When repeated failures of one name block its logins: threshold, duration, reset, or disabled.",
  listing_visibility: "`unauth` lists the method for callers without a token.",
};

/** Descriptions of the `token_…` fields of roles and users. */
export const tokenFieldTexts = {
  token_ttl: "Lifetime of the token, and of each renewal. Default: the auth method's.",
  token_max_ttl: "End of all renewals. Default: the auth method's.",
  token_explicit_max_ttl: "A hard end, which also holds for periodic tokens.",
  token_period: "Each renewal extends the token by this time, without an end.",
  token_policies: "Policies of the token.",
  token_bound_cidrs: "Networks that the login and its token are accepted from.",
  token_no_default_policy: "Leave out the policy `default`.",
  token_num_uses: "Number of requests that the token may be used for; 0 = any number.",
  token_type: "`service`, `batch`, or `default`: the auth method decides.",
  alias_metadata: "Custom metadata of the alias, set by each login, for templated policies: at most 64 texts by name.",
};

/** Older names of some of these fields. Reads show a field that was written with its older name under both. */
export const legacyTokenFieldTexts = {
  ttl: "Older name of `token_ttl`.",
  max_ttl: "Older name of `token_max_ttl`.",
  period: "Older name of `token_period`.",
  policies: "Older name of `token_policies`.",
  bound_cidrs: "Older name of `token_bound_cidrs`.",
};

/** Those of roles of `jwt` and `kubernetes`. */
export const legacyRoleFieldTexts = { ...legacyTokenFieldTexts, num_uses: "Older name of `token_num_uses`." };

const NO_HASH = "Must be empty: bcrypt hashes are not accepted.";
const user: Operation["body"] = {
  fields: { password: "The user's password.", password_hash: NO_HASH, ...tokenFieldTexts, ...legacyTokenFieldTexts },
};

const list = z.array(z.string());
const JwtConfig = z.object({
  oidc_discovery_url: z.string(),
  jwks_url: z.string(),
  jwt_validation_pubkeys: list,
  bound_issuer: z.string(),
  jwt_supported_algs: list,
  default_role: z.string(),
  namespace_in_state: z.boolean(),
  oidc_client_id: z.string(),
  oidc_response_mode: z.string(),
  oidc_response_types: list,
  provider_config: z.object({ provider: z.string().optional() }),
  jwks_pairs: z.array(z.object({ jwks_url: z.string(), jwks_ca_pem: z.string().optional() })),
});
const JwtRole = z.object({
  ...TokenSettings.shape,
  role_type: z.string(),
  bound_audiences: list,
  bound_subject: z.string(),
  bound_claims: z.record(z.string(), z.unknown()),
  bound_claims_type: z.string(),
  groups_claim: z.string(),
  user_claim: z.string(),
  user_claim_json_pointer: z.boolean(),
  claim_mappings: z.record(z.string(), z.string()),
  expiration_leeway: seconds,
  not_before_leeway: seconds,
  clock_skew_leeway: seconds,
  max_age: seconds,
  callback_mode: z.string().optional(),
  verbose_oidc_logging: z.boolean(),
  allowed_redirect_uris: list,
  oidc_scopes: list,
});

const jwtConfigTexts = {
  oidc_discovery_url: "The issuer's URL, without `.well-known`. Its discovery document names the keys.",
  jwks_url: "The URL of a JSON Web Key Set.",
  jwt_validation_pubkeys: "Public keys or certificates as PEM texts.",
  bound_issuer: "The `iss` claim that tokens must have. Default: the issuer of the discovery document.",
  jwt_supported_algs: "Accepted signature algorithms. Default: RS, ES and PS with SHA-2, and EdDSA.",
  default_role: "The role of logins that name none.",
  oidc_client_id: "This service's client at the provider, for logins in a browser.",
  oidc_client_secret: "The client's secret. It is stored sealed and never returned.",
  oidc_response_mode: "`query` (default) or `form_post`.",
  oidc_response_types: "`code`.",
  provider_config: "How the provider states groups: `provider` is `secureauth` (commas) or `ibmisam` (spaces).",
  jwks_pairs: "Key sets, any of which may hold the key of a token: objects with a `jwks_url`.",
};
const jwtRoleTexts = {
  callback_mode: "`client`.",
  role_type: "`oidc` (default): logins in a browser; `jwt`: logins by a signed token.",
  allowed_redirect_uris: "Addresses to which a browser may return; loopback addresses match with any port.",
  oidc_scopes: "Scopes to request beside `openid`.",
  max_age: "How long ago the person may have logged in at the provider; 0 = any time.",
  bound_audiences: "Audiences (`aud`), one of which a token must have.",
  bound_subject: "The `sub` claim that a token must have.",
  bound_claims: "Claims and their required values; a list of values means any of them.",
  bound_claims_type: "`string` (default), or `glob`: `*` in values matches any text.",
  user_claim: "The claim that names the caller.",
  user_claim_json_pointer: "Whether `user_claim` is a JSON pointer.",
  claim_mappings: "Claims to copy, and the metadata keys that they get.",
  groups_claim: "The claim with the caller's groups; a JSON pointer when it begins with `/`.",
  expiration_leeway: "Lifetime of tokens without `exp`. Default: 150 s; negative: none.",
  not_before_leeway: "Start of tokens without `nbf`, before `exp`. Default: 150 s; negative: none.",
  clock_skew_leeway: "Accepted difference of clocks. Default: 60 s; negative: none.",
};

const jwt: Readonly<Record<string, Operation>> = {
  "GET /auth/jwt/config": {
    id: "readJwtConfig",
    summary: "Read the configuration of logins by signed tokens",
    answers: data("The configuration.", JwtConfig),
  },
  "POST /auth/jwt/config": {
    id: "writeJwtConfig",
    summary: "Configure logins by signed tokens",
    body: { fields: jwtConfigTexts },
  },
  "LIST /auth/jwt/role": { id: "listJwtRoles", summary: "List the roles" },
  "GET /auth/jwt/role/:name": {
    id: "readJwtRole",
    summary: "Read a role",
    path: { name: "The role's name, in any letter case." },
    answers: data("The role.", JwtRole),
  },
  "POST /auth/jwt/role/:name": {
    id: "writeJwtRole",
    summary: "Create or update a role",
    path: { name: "The role's name, in any letter case." },
    body: { fields: { ...jwtRoleTexts, ...tokenFieldTexts, ...legacyRoleFieldTexts } },
  },
  "DELETE /auth/jwt/role/:name": {
    id: "deleteJwtRole",
    summary: "Delete a role",
    path: { name: "The role's name, in any letter case." },
  },
  "POST /auth/jwt/login": {
    id: "loginWithJwt",
    summary: "Log in by a signed token",
    body: { fields: { role: "Default: the configuration's.", jwt: "Default: `Cf-Access-Jwt-Assertion`." } },
    answers: loggedIn,
    errors: [403],
  },
  "POST /auth/jwt/oidc/auth_url": {
    id: "beginJwtBrowserLogin",
    summary: "Start a browser login",
    body: {
      fields: {
        role: "Default: the configuration's.",
        redirect_uri: "Where the browser returns; one of the role's.",
        client_nonce: "Binds the login to this client: the callback needs the same value.",
      },
    },
    answers: data(
      "The provider's address for the browser; empty when the redirect URI is not one of the role's.",
      z.object({ auth_url: z.string() }),
    ),
  },
  "GET /auth/jwt/oidc/callback": {
    id: "completeJwtBrowserLogin",
    summary: "Complete a browser login (provider callback)",
    query: {
      state: "The login's state. It is used once, within ten minutes.",
      code: "The provider's code.",
      client_nonce: "The nonce that the login began with, if any.",
      iss: "The provider, as its redirect states it. Another one than the method's is refused.",
      error: "The provider's error, instead of a code.",
    },
    answers: loggedIn,
    errors: [403],
  },
  "POST /auth/jwt/oidc/callback": {
    id: "receiveJwtBrowserLogin",
    summary: "Receive a provider callback as a form",
    body: {
      types: ["application/x-www-form-urlencoded"],
      fields: { state: "The login's state.", code: "The code.", iss: "The provider." },
    },
    answers: { 200: { kind: "text", description: "A page with a button.", type: "text/html" } },
  },
};

/** The type `oidc` has the operations of `jwt`. */
const oidc = Object.fromEntries(
  Object.entries(jwt).map(([key, operation]) => [
    key.replace("/auth/jwt/", "/auth/oidc/"),
    { ...operation, id: operation.id.replace("Jwt", "Oidc") },
  ]),
);

export const authMethods = group(
  "Logins",
  { path: "The path of the auth method, below `auth/`.", name: "The user's name, in any letter case." },
  {
    "GET /sys/auth": {
      id: "listAuthMethods",
      summary: "List the auth methods",
      answers: data("The auth methods by path.", z.record(z.string(), AuthMount), { flat: true }),
    },
    "GET /sys/auth/:path+": {
      id: "readAuthMethod",
      summary: "Read an auth method",
      answers: data("The auth method.", z.object(mount), { flat: true }),
    },
    "POST /sys/auth/:path+": {
      id: "enableAuthMethod",
      summary: "Enable an auth method",
      body: { fields: { type: "The type: `userpass`, `jwt`, `oidc`, `kubernetes` or `approle`." } },
    },
    "DELETE /sys/auth/:path+": { id: "disableAuthMethod", summary: "Disable an auth method and revoke its tokens" },
    "GET /sys/auth/:path+/tune": {
      id: "readAuthMethodTuning",
      summary: "Read the settings of an auth method",
      answers: data("The settings.", Tuning, { flat: true }),
    },
    "POST /sys/auth/:path+/tune": {
      id: "tuneAuthMethod",
      summary: "Tune an auth method",
      body: { fields: tuning },
    },
    "GET /sys/mounts/auth/:path+": {
      id: "readAuthMount",
      summary: "Read an auth method by the path of its mount",
      answers: data("The auth method.", z.object(mount), { flat: true }),
    },
    "GET /sys/mounts/auth/:path+/tune": {
      id: "readAuthMountTuning",
      summary: "Read the settings of an auth method by the path of its mount",
      answers: data("The settings.", Tuning, { flat: true }),
    },
    "POST /sys/mounts/auth/:path+/tune": {
      id: "tuneAuthMount",
      summary: "Tune an auth method by the path of its mount",
      body: { fields: tuning },
    },
    "LIST /auth/userpass/users": { id: "listUsers", summary: "List the users" },
    "GET /auth/userpass/users/:name": {
      id: "readUser",
      summary: "Read a user",
      answers: data("The user's token settings; never the password.", TokenSettings),
    },
    "POST /auth/userpass/users/:name": {
      id: "writeUser",
      summary: "Create or update a user",
      body: user,
    },
    "DELETE /auth/userpass/users/:name": { id: "deleteUser", summary: "Delete a user" },
    "POST /auth/userpass/users/:name/password": {
      id: "changePassword",
      summary: "Change a user's password",
      body: { fields: { password_hash: NO_HASH } },
    },
    "POST /auth/userpass/users/:name/policies": { id: "changeUserPolicies", summary: "Change a user's policies" },
    "POST /auth/userpass/login/:name": {
      id: "loginWithPassword",
      summary: "Log in by name and password",
      answers: loggedIn,
    },
    ...jwt,
    ...oidc,
  },
);
