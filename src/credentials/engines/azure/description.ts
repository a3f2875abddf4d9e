import type { EngineDescription } from "../description.ts";

const config = {
  subscription_id: { label: "Subscription ID", help: "The subscription whose roles can be assigned." },
  tenant_id: { label: "Tenant ID", help: "The directory's id, or one of its domain names." },
  environment: { label: "Environment", help: "The provider's cloud by name; empty is the public one." },
  client_id: { label: "Client ID", help: "The application that the engine logs in as." },
  client_secret: {
    label: "Client secret",
    help: "Excludes `identity_token_audience`. Never answered.",
    secret: true,
  },
  root_password_ttl: {
    label: "Root password TTL",
    help: "Life of the secret that a rotation makes; 182 days by default.",
  },
  identity_token_audience: {
    label: "Identity token audience",
    help: "Logs in with an identity token for this audience instead of a secret.",
  },
  identity_token_ttl: { label: "Identity token TTL", help: "Life of such a token; an hour by default." },
  rotation_schedule: {
    label: "Rotation schedule",
    help: "When the secret is rotated, as a cron expression of five fields in UTC.",
  },
  rotation_window: {
    label: "Rotation window",
    help: "How long after its time a scheduled rotation may still begin.",
  },
  rotation_period: { label: "Rotation period", help: "Rotates after this time, instead of a schedule." },
} as const satisfies EngineDescription["config"];

const roles = {
  cloud_roles: {
    label: "Azure roles",
    upstream: "azure_roles",
    help: "Role definitions that each principal is assigned",
  },
  cloud_groups: { label: "Groups", upstream: "azure_groups", help: "Groups that each principal joins" },
  application_object_id: {
    label: "Application object ID",
    help: "An application that is there, for which secrets are made instead of principals.",
  },
  ttl: { label: "TTL", help: "Of leases by default; 0 is the mount's." },
  max_ttl: { label: "Maximum TTL", help: "The most that a lease may live; 0 is the mount's." },
  explicit_max_ttl: { label: "Explicit maximum TTL", help: "The end of all renewals; 0 is none." },
  persist_app: { label: "Persist the application", help: "One principal for the life of the role." },
  permanently_delete: {
    label: "Delete permanently",
    help: "Deletes applications beyond recovery. Not with `application_object_id`.",
  },
  sign_in_audience: {
    label: "Sign-in audience",
    help: "Accounts that may use an application that is made.",
    values: [
      ["DirectoryMyOrg", "AzureADMyOrg"],
      ["DirectoryMultipleOrgs", "AzureADMultipleOrgs"],
      ["DirectoryandPersonalAccount", "AzureADandPersonalMicrosoftAccount"],
      ["PersonalAccount", "PersonalMicrosoftAccount"],
    ],
  },
  tags: { label: "Tags", help: "Tags of applications that are made." },
  metadata: { label: "Metadata", help: "Answered with credentials, at most 64 texts." },
  share_until: {
    label: "Share until",
    help: "Percent of the TTL, at most 90, until which a caller gets the same lease again; 0 is never.",
  },
  pool_size: {
    label: "Pool size",
    help: "Number of principals, at most 50, that are made and verified ahead of requests; 0 is none.",
  },
  pool_ttl: { label: "Pool TTL", help: "Time after which a principal of the pool is replaced; 0 is a day." },
} as const satisfies EngineDescription["config"];

export const description = {
  type: "cloud-b",
  upstream: "azure",
  label: "Azure",
  about: "Leased service principals, or passwords of existing applications.",
  paths: { config: "/config", rotate: "/rotate-root", roles: "/roles", issue: ["/creds"] },
  isCaseless: true,
  config,
  roles,
} as const satisfies EngineDescription;
