import type { EngineDescription, FieldDescription } from "../description.ts";

type Fields = Readonly<Record<string, FieldDescription>>;

const config = {
  credentials: {
    label: "Credentials",
    help: "The JSON key of the engine's service account. Excludes `identity_token_audience`. Never answered.",
    secret: true,
  },
  service_account_email: {
    label: "Service account",
    help: "The service account that the engine acts as with identity tokens.",
  },
  identity_token_audience: {
    label: "Identity token audience",
    help: "Logs in with an identity token for this audience, by workload identity federation, instead of a key.",
  },
  identity_token_ttl: { label: "Identity token TTL", help: "Life of such a token; an hour by default." },
  ttl: { label: "TTL", help: "Of leases of keys by default; 0 is the mount's." },
  max_ttl: { label: "Maximum TTL", help: "The most that a lease or an access token may live; 0 is the mount's." },
  rotation_schedule: {
    label: "Rotation schedule",
    help: "When the key is replaced, as a cron expression of five fields in UTC.",
  },
  rotation_window: { label: "Rotation window", help: "How long after its time a scheduled rotation may still begin." },
  rotation_period: { label: "Rotation period", help: "Replaces the key after this time, instead of a schedule." },
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

const bindings = {
  label: "Bindings",
  help: 'Roles by resource, as HCL or JSON: `resource "NAME" { roles = ["roles/viewer"] }`, also in base64.',
} as const satisfies FieldDescription;

const roleset = {
  secret_type,
  project: { label: "Project", help: "The project of the service account that is made. Fixed." },
  bindings,
  token_scopes,
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
  },
  keepsConfig: true,
  deletesAnyRole: true,
  config,
  roles: roleset,
  kinds: [
    {
      path: "/static-account",
      lists: ["/static-accounts", "/static-account"],
      rotate: ["/static-account/:name/rotate-key"],
      issue: ["/static-account/:name/token", "/static-account/:name/key"],
      fields: { service_account_email, secret_type, bindings, token_scopes },
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
} as const satisfies EngineDescription;
