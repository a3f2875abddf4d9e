import { type EngineDescription, rotationFields, shareUntil } from "../description.ts";

const config = {
  subscription_id: { label: "Subscription ID", help: "The subscription whose roles can be assigned." },
  tenant_id: {
    variable: "AZURE_TENANT_ID",
    label: "Tenant ID",
    help: "The directory's id, or one of its domain names.",
  },
  environment: {
    placeholder: "AzurePublicCloud",
    advanced: true,
    label: "Environment",
    help: "The provider's cloud by name; empty is the public one.",
  },
  client_id: { label: "Client ID", help: "The application that the engine logs in as." },
  client_secret: {
    label: "Client secret",
    help: "Not with `identity_token_audience`. Never returned.",
    secret: true,
  },
  root_password_ttl: {
    advanced: true,
    label: "Root password TTL",
    help: "Life of the secret that a rotation makes; 182 days by default.",
  },
  identity_token_audience: {
    placeholder: "api://AzureADTokenExchange",
    advanced: true,
    label: "Identity token audience",
    help: "Logs in with an identity token for this audience instead of a secret.",
  },
  identity_token_ttl: {
    advanced: true,
    label: "Identity token TTL",
    help: "Life of such a token; an hour by default.",
  },
  ...rotationFields({ scheduled: "When the secret is rotated", period: "Rotates" }),
  seamless_rotation: {
    advanced: true,
    label: "Seamless rotation",
    help: "Of new static roles that do not say; true by default.",
  },
} as const satisfies EngineDescription["config"];

const roles = {
  cloud_roles: {
    label: "Azure roles",
    upstream: "azure_roles",
    help: "Role definitions that each principal is assigned",
  },
  cloud_groups: { label: "Groups", upstream: "azure_groups", help: "Groups that each principal joins" },
  application_object_id: {
    advanced: true,
    label: "Application object ID",
    help: "An application that is there, for which secrets are made instead of principals.",
  },
  ttl: { placeholder: "1h", label: "TTL", help: "Of leases by default; 0 is the mount's." },
  max_ttl: { placeholder: "24h", label: "Maximum TTL", help: "The most that a lease may live; 0 is the mount's." },
  explicit_max_ttl: { advanced: true, label: "Explicit maximum TTL", help: "The end of all renewals; 0 is none." },
  persist_app: { advanced: true, label: "Persist the application", help: "One principal for the life of the role." },
  permanently_delete: {
    advanced: true,
    label: "Delete permanently",
    help: "Deletes applications beyond recovery. Not with `application_object_id`.",
  },
  sign_in_audience: {
    advanced: true,
    label: "Sign-in audience",
    help: "Accounts that may use an application that is made.",
    values: [
      ["DirectoryMyOrg", "AzureADMyOrg"],
      ["DirectoryMultipleOrgs", "AzureADMultipleOrgs"],
      ["DirectoryandPersonalAccount", "AzureADandPersonalMicrosoftAccount"],
      ["PersonalAccount", "PersonalMicrosoftAccount"],
    ],
  },
  tags: { advanced: true, label: "Tags", help: "Tags of applications that are made." },
  metadata: { advanced: true, label: "Metadata", help: "Answered with credentials, at most 64 texts." },
  share_until: shareUntil,
  pool_size: {
    advanced: true,
    label: "Pool size",
    help: "Number of principals, at most 50, that are made and verified ahead of requests; 0 is none.",
  },
  pool_ttl: {
    advanced: true,
    label: "Pool TTL",
    help: "Time after which a principal of the pool is replaced; 0 is a day.",
  },
} as const satisfies EngineDescription["config"];

const staticRoles = {
  application_object_id: {
    label: "Application object ID",
    help: "An application that is there; it cannot be changed.",
  },
  rotation_period: {
    placeholder: "8760h",
    label: "Rotation period",
    help: "Life of each password: 720 hours at least, two years by default.",
  },
  ttl: { advanced: true, label: "TTL", help: "Another name of `rotation_period`." },
  rotation_grace_period: {
    advanced: true,
    placeholder: "300",
    label: "Grace period",
    help: "How long the former password works on after a rotation; 0 is 300 s, -1 none.",
  },
  seamless_rotation: {
    advanced: true,
    label: "Seamless rotation",
    help: "Whether there is a grace period; by default that of the configuration.",
  },
  metadata: { advanced: true, label: "Metadata", help: "Answered with the credentials, at most 64 texts." },
  defer_initial_creds: {
    advanced: true,
    label: "Defer the first password",
    help: "The first rotation makes it, not the write.",
  },
  secret_id: { advanced: true, label: "Secret ID", help: "Imports this password of the application." },
  client_secret: {
    advanced: true,
    label: "Client secret",
    help: "Its text; without it, it is replaced at once.",
    secret: true,
  },
  skip_import_rotation: {
    advanced: true,
    label: "Skip the rotation of an import",
    help: "An import without its text is replaced by the first rotation only.",
  },
} as const satisfies EngineDescription["config"];

export const description = {
  type: "cloud-b",
  upstream: "azure",
  label: "Azure",
  about: "Leased service principals, or passwords of existing applications.",
  paths: { config: "/config", rotate: "/rotate-root", roles: "/roles", issue: ["/creds"] },
  isCaseless: true,
  owns: "application",
  config,
  roles,
  kinds: [
    {
      path: "/static-roles",
      rotate: ["/rotate-role/:name"],
      issue: [],
      reads: ["/static-creds"],
      logins: ["/static-creds/:name/token"],
      writes: ["/static-roles/:name/import"],
      owns: "passwords",
      fields: staticRoles,
    },
  ],
  answer: {
    client_id: { label: "Client ID", variable: "AZURE_CLIENT_ID" },
    client_secret: { label: "Client secret", variable: "AZURE_CLIENT_SECRET", secret: true },
  },
} as const satisfies EngineDescription;
