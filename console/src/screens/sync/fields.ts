/** Labels, hints and choices of destinations' fields that the schema does not have. */
import schema from "schema:POST /v1/sys/sync/destinations/{type}/{name}";
import type { FieldTexts, FormValue } from "../../components/schema-form.tsx";
import { isSecretName, type JsonSchema } from "../../lib/schema.ts";

export interface ProviderType {
  readonly type: string;
  readonly about: string;
  readonly schema: JsonSchema;
  /** Fields that cannot change. */
  readonly fixed: readonly string[];
  readonly first: readonly string[];
  readonly advanced: readonly string[];
}

/** Log-in by identity tokens instead of a stored secret (docs/guides/federation.md). */
const FEDERATION = ["service_account_email", "identity_token_audience", "identity_token_ttl", "identity_token_key"];
/** Secrets that identity tokens replace. */
const REPLACED = ["client_secret", "credentials"];
/** Fields of every type; their defaults are good. */
const POLICIES = ["granularity", "custom_tags", "update_policy", "deletion_policy"];
const NETWORKING = ["allowed_ipv4_addresses", "allowed_ipv6_addresses", "allowed_ports", "disable_strict_networking"];

const ABOUT: Readonly<
  Record<string, Omit<ProviderType, "type" | "schema" | "advanced"> & { readonly late?: readonly string[] }>
> = {
  "cloud-a-sm": {
    about: "Secrets Manager of an account and region",
    fixed: ["region"],
    first: ["region", "access_key_id", "secret_access_key"],
    late: ["role_arn", "external_id", "kms_key_id", "replica_regions"],
  },
  "cloud-b-kv": {
    about: "A key vault, by an application's client secret",
    fixed: ["key_vault_uri", "tenant_id", "cloud"],
    first: ["key_vault_uri"],
    late: ["cloud"],
  },
  "cloud-c-sm": {
    about: "Secret Manager of a project, by a service account's key",
    fixed: ["project_id", "kms_key_id", "replica_regions"],
    first: ["credentials", "project_id"],
    late: ["kms_key_id", "replica_regions"],
  },
  "repo-host": {
    about: "Actions secrets of a repository, environment or organization",
    fixed: [
      "repository_owner",
      "repository_name",
      "environment_name",
      "secrets_location",
      "organization_name",
      "organization_visibility",
      "selected_repository_names",
    ],
    first: ["repository_owner", "repository_name", "access_token", "app_name", "installation_id"],
    late: [
      "environment_name",
      "secrets_location",
      "organization_name",
      "organization_visibility",
      "selected_repository_names",
      "enterprise_url",
    ],
  },
  "deploy-project": {
    about: "Environment variables of a project",
    fixed: ["project_id"],
    first: ["access_token", "project_id", "deployment_environments", "team_id"],
  },
  "in-mem": { about: "Kept in the service itself: to try things out, without an account", fixed: [], first: [] },
};

export const TYPES: readonly ProviderType[] = (schema.anyOf ?? []).map((own: JsonSchema) => {
  const type = own.title ?? "";
  const { about = "", fixed = [], first = [], late = [] } = ABOUT[type] ?? {};
  const isFederated = "identity_token_audience" in (own.properties ?? {});
  const required = (own.required ?? []).filter((name) => !(isFederated && REPLACED.includes(name)));
  const advanced = [...FEDERATION, ...late, ...POLICIES, ...NETWORKING];
  return { type, about, schema: { ...own, required }, fixed, first, advanced };
});

/** Default names of the secret app/database, with the accessor of its engine and the key password. */
const DEFAULT_NAMES: Readonly<Record<string, string>> = {
  "cloud-b-kv": "vault-kv-1a2b3c4d-app-database",
  "cloud-c-sm": "vault-kv_1a2b3c4d-app-database",
  "repo-host": "VAULT_KV_1A2B3C4D_APP_DATABASE_PASSWORD",
  "deploy-project": "vault_kv_1a2b3c4d_app_database_password",
};

/** Texts of a new destination's form. */
export const newTexts = (type: string): Readonly<Record<string, FieldTexts>> => ({
  ...TEXTS,
  secret_name_template: {
    ...TEXTS["secret_name_template"],
    hint: `${TEXTS["secret_name_template"]?.hint} Left empty, it is called ${DEFAULT_NAMES[type] ?? "vault/kv_1a2b3c4d/app/database"}.`,
  },
});

/** Never part of a form: the form's own button, and older names of `kms_key_id` and `replica_regions`. */
export const HIDDEN: readonly string[] = ["dry_run", "global_kms_key", "replication_locations", "locational_kms_keys"];

export const TEXTS: Readonly<Record<string, FieldTexts>> = {
  access_key_id: { label: "Access key ID", hint: "Left empty: the deployment's own key." },
  secret_access_key: { label: "Secret access key" },
  region: { placeholder: "eu-west-1", hint: "Cannot change later." },
  role_arn: { label: "Role ARN", hint: "Role to assume with the key." },
  external_id: { label: "External ID", hint: "Asked for by the role's trust policy." },
  key_vault_uri: { label: "Vault URI", placeholder: "https://acme.vault.azure.net", hint: "Cannot change later." },
  tenant_id: { label: "Tenant ID", hint: "Cannot change later." },
  client_id: { label: "Client ID" },
  client_secret: { label: "Client secret" },
  cloud: { label: "Cloud", hint: "Empty is the public one." },
  credentials: {
    label: "Key of the service account",
    hint: "The JSON file, or @path of a file in the deployment's bucket FILES.",
    rows: 6,
  },
  kms_key_id: { label: "KMS key ID", hint: "Key that encrypts the objects; left empty, the provider's own." },
  replica_regions: { label: "Replica regions", hint: "Names of regions; the value is the KMS key there, or empty." },
  service_account_email: {
    label: "Service account email",
    hint: "With identity tokens instead of a key: the service account to act as.",
  },
  identity_token_audience: {
    label: "Identity token audience",
    hint: "Logs in by identity tokens instead of a stored secret. Credentials, tab Federation, has what the provider needs.",
  },
  identity_token_key: { label: "Identity token key", hint: "The issuer has one key, default." },
  identity_token_ttl: { label: "Identity token TTL", hint: "Such as 1h." },
  allowed_ipv4_addresses: { label: "Allowed IPv4 addresses" },
  allowed_ipv6_addresses: { label: "Allowed IPv6 addresses" },
  allowed_ports: { label: "Allowed ports" },
  disable_strict_networking: { label: "Ignore the allowed addresses and ports" },
  project_id: { label: "Project ID", hint: "Cannot change later." },
  access_token: { label: "Access token" },
  app_name: { label: "Application", hint: "Instead of an access token: one of the tab GitHub apps." },
  installation_id: { label: "Installation ID", hint: "Of the application, for this owner." },
  repository_owner: { label: "Owner", placeholder: "acme", hint: "Cannot change later." },
  repository_name: { label: "Repository", placeholder: "web", hint: "Cannot change later." },
  environment_name: { label: "Environment", hint: "Left empty: secrets of the repository." },
  secrets_location: { label: "Location", names: { repository: "Repository", organization: "Organization" } },
  organization_name: { label: "Organization" },
  organization_visibility: { label: "Visible in" },
  selected_repository_names: { label: "Selected repositories" },
  enterprise_url: { label: "Enterprise URL", hint: "Of your own GitHub server." },
  team_id: { label: "Team ID", hint: "Of a project that belongs to a team." },
  deployment_environments: { label: "Environments", hint: "development, preview or production." },
  granularity: {
    hint: "What becomes one object at the provider.",
    names: { "secret-path": "Each secret, as JSON", "secret-key": "Each key of a secret" },
  },
  secret_name_template: {
    label: "Name template",
    hint: "What objects are called there. With {{ .SecretPath }} alone, app/database is called app/database.",
  },
  custom_tags: { label: "Custom tags", hint: "Beside our own marker; AWS, Azure and Google only." },
  update_policy: {
    hint: "What happens to an object that is there already.",
    names: {
      replace: "Replace: the last write wins",
      "if-not-exists": "If not exists: it keeps its value",
      "owned-only": "Owned only: others' objects are not touched",
    },
  },
  deletion_policy: {
    hint: "What happens to the object when a secret is not synced any more.",
    names: { delete: "Delete it", retain: "Leave it there" },
  },
};

/** A body without values that are secrets, for a command. */
export const withoutSecrets = (body: FormValue): FormValue =>
  Object.fromEntries(
    Object.entries(body).map(([name, value]) => [name, isSecretName(name) || name === "access_key_id" ? "…" : value]),
  );
