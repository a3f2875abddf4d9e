import { type EngineDescription, type FieldDescription, rotationFields, shareUntil } from "../description.ts";

type Fields = Readonly<Record<string, FieldDescription>>;

const config = {
  credentials: {
    rows: 6,
    label: "Credentials",
    help: "The JSON key of the engine's service account. Not with `identity_token_audience`. Never returned.",
    secret: true,
  },
  service_account_email: {
    advanced: true,
    label: "Service account",
    help: "The service account that the engine acts as with identity tokens.",
  },
  identity_token_audience: {
    advanced: true,
    label: "Identity token audience",
    help: "Logs in with an identity token for this audience, by workload identity federation, instead of a key.",
  },
  identity_token_ttl: {
    advanced: true,
    label: "Identity token TTL",
    help: "Life of such a token; an hour by default.",
  },
  ttl: { label: "TTL", help: "Of leases of keys by default; 0 is the mount's." },
  max_ttl: { label: "Maximum TTL", help: "The most that a lease or an access token may live; 0 is the mount's." },
  ...rotationFields({ scheduled: "When the key is replaced", period: "Replaces the key" }),
} as const satisfies Fields;

const token_scopes = {
  label: "Token scopes",
  help: "OAuth scopes of access tokens; required for them.",
} as const satisfies FieldDescription;

const service_account_email = {
  label: "Service account",
  help: "E-mail address of a service account that exists. Fixed.",
} as const satisfies FieldDescription;

const secret_type = {
  label: "Secret type",
  help: "`access_token` or `service_account_key`. Fixed.",
} as const satisfies FieldDescription;

const share_until = {
  ...shareUntil,
  help: "Percent of the TTL, at most 90, until which a caller gets the same key and lease again; 0 is never.",
} as const satisfies FieldDescription;

const bindings = {
  label: "Bindings",
  rows: 6,
  help: 'Roles by resource, as HCL or JSON: `resource "NAME" { roles = ["roles/viewer"] }`, also in base64.',
} as const satisfies FieldDescription;

const roleset = {
  secret_type,
  project: { label: "Project", help: "The project of the service account that is made. Fixed." },
  bindings,
  token_scopes,
  share_until,
} as const satisfies Fields;

export const description = {
  type: "cloud-c",
  upstream: "gcp",
  label: "Google Cloud",
  about: "Access tokens and leased keys of service accounts.",
  paths: {
    config: "/config",
    rotate: "/config/rotate-root",
    roles: "/roleset",
    lists: ["/rolesets", "/roleset"],
    rotateRole: ["/roleset/:name/rotate", "/roleset/:name/rotate-key"],
    issue: ["/roleset/:name/token", "/roleset/:name/key", "/token", "/key"],
    issueBy: {
      field: "secret_type",
      paths: { access_token: "/roleset/:name/token", service_account_key: "/roleset/:name/key" },
    },
  },
  keepsConfig: true,
  deletesAnyRole: true,
  config,
  owns: "service account and its rights",
  roles: roleset,
  kinds: [
    {
      path: "/static-account",
      lists: ["/static-accounts", "/static-account"],
      rotate: ["/static-account/:name/rotate-key"],
      issue: ["/static-account/:name/token", "/static-account/:name/key"],
      issueBy: {
        field: "secret_type",
        paths: { access_token: "/static-account/:name/token", service_account_key: "/static-account/:name/key" },
      },
      owns: "rights",
      fields: { service_account_email, secret_type, bindings, token_scopes, share_until },
    },
    {
      path: "/impersonated-account",
      lists: ["/impersonated-accounts", "/impersonated-account"],
      issue: ["/impersonated-account/:name/token"],
      fields: {
        service_account_email,
        token_scopes,
        ttl: { label: "TTL", help: "Life of access tokens; an hour by default." },
      },
    },
  ],
  answer: {
    token: { label: "Access token", variable: "CLOUDSDK_AUTH_ACCESS_TOKEN", secret: true },
    token_ttl: { label: "Life of the token", life: true },
    private_key_data: { label: "Key, in base64", secret: true },
    key_type: { label: "Key type" },
  },
} as const satisfies EngineDescription;
