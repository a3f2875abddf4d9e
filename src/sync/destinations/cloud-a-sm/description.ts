import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

/** Login and region, for the services of an account. */
export const accountDescriptions = {
  region: { label: "Region", help: "Left empty: the deployment's own.", fixed: true, placeholder: "eu-west-1" },
  access_key_id: { label: "Access key ID", help: "Left empty: the deployment's own key.", secret: true },
  secret_access_key: { label: "Secret access key", secret: true },
  ...identityTokenDescriptions,
  role_arn: {
    label: "Role ARN",
    help: "Role to assume with the key. A change stays in its account.",
    advanced: true,
  },
  external_id: { label: "External ID", help: "Asked for by the role's trust policy.", advanced: true },
} as const satisfies DestinationDescription["fields"];

export const description = {
  type: "cloud-a-sm",
  upstream: "aws-sm",
  label: "AWS Secrets Manager",
  about: "Secrets Manager of an account and region",
  fields: {
    ...accountDescriptions,
    kms_key_id: {
      label: "KMS key ID",
      help: "Key that encrypts the objects; left empty, the provider's own.",
      advanced: true,
    },
    replica_regions: {
      label: "Replica regions",
      help: "Names of regions; the value is the KMS key there, or empty.",
      advanced: true,
    },
  },
  example: { region: "eu-west-1", access_key_id: "AKIAEXAMPLE", secret_access_key: "made-up-secret-access-key" },
  sampleName: "vault/kv_1a2b3c4d/app/database",
  settings: ["CLOUD_A_SM_URL"],
  login: "access key, role of it, or identity tokens",
  reads: "version",
  effect: "immediate",
  limits: "64 KiB a value, names of 512 characters, 50 calls a second",
  permissions: [
    "`CreateSecret`, `UpdateSecret`, `DeleteSecret`, `TagResource`, `UntagResource`; `RestoreSecret` for names scheduled for deletion",
    "`DescribeSecret`",
  ],
} as const satisfies DestinationDescription;
