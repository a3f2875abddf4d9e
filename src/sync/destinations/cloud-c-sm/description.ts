import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

export const description = {
  type: "cloud-c-sm",
  upstream: "gcp-sm",
  label: "Google Secret Manager",
  about: "Secret Manager of a project, by a service account's key",
  fields: {
    credentials: {
      label: "Key of the service account",
      help: "The JSON file, or @path of a file in the deployment's bucket FILES.",
      required: true,
      secret: true,
      rows: 6,
    },
    project_id: { label: "Project ID", fixed: true },
    service_account_email: {
      label: "Service account email",
      help: "With identity tokens instead of a key: the service account to act as.",
      advanced: true,
    },
    ...identityTokenDescriptions,
    kms_key_id: {
      label: "KMS key ID",
      help: "Key that encrypts the objects; left empty, the provider's own.",
      fixed: true,
      advanced: true,
    },
    replica_regions: {
      label: "Replica regions",
      help: "Names of regions; the value is the KMS key there, or empty.",
      fixed: true,
      advanced: true,
    },
    global_kms_key: { label: "KMS key ID", fixed: true, hidden: true },
    replication_locations: { label: "Replica regions", fixed: true, hidden: true },
    locational_kms_keys: { label: "KMS keys of replica regions", fixed: true, hidden: true },
  },
  sampleName: "vault-kv_1a2b3c4d-app-database",
  settings: ["CLOUD_C_SM_URL"],
  login: "service account key, or identity tokens",
  reads: "version",
  effect: "immediate",
  limits: "64 KiB a value, names of 255 letters, digits, `_` and `-`, 600 writes a minute",
  permissions: [
    "`secrets.create`, `secrets.update`, `secrets.delete`, `versions.add`, `versions.destroy`; `versions.list` to destroy versions of a push of unknown outcome",
    "`secrets.get`, `secrets.list`",
  ],
} as const satisfies DestinationDescription;
