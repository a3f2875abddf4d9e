import { accountDescriptions } from "../cloud-a-sm/description.ts";
import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "cloud-a-ps",
  upstream: "aws-ssm",
  label: "AWS Parameter Store",
  about: "SecureString parameters of an account and region",
  fields: {
    ...accountDescriptions,
    kms_key_id: {
      label: "KMS key ID",
      help: "Key that encrypts the parameters; left empty, the provider's own.",
      advanced: true,
    },
    tier: {
      label: "Tier",
      help: "Left empty: the account's default. Advanced parameters take 8 KB and cost.",
      advanced: true,
      choices: { Standard: "Standard", Advanced: "Advanced", "Intelligent-Tiering": "Intelligent tiering" },
    },
  },
  example: { region: "eu-west-1", access_key_id: "AKIAEXAMPLE", secret_access_key: "made-up-secret-access-key" },
  sampleName: "/vault/kv_1a2b3c4d/app/database",
  settings: ["CLOUD_A_PS_URL"],
  login: "access key, role of it, or identity tokens",
  reads: "version",
  effect: "immediate",
  limits:
    "4 KB a value (8 KB in the advanced tier), names of 900 characters and 15 levels, 10 000 parameters a region (100 000 in the advanced tier)",
  permissions: [
    "`PutParameter`, `DeleteParameter`, `AddTagsToResource`, `RemoveTagsFromResource`; with a KMS key `kms:Encrypt` (advanced tier: `kms:GenerateDataKey`)",
    "`GetParameter`, `ListTagsForResource`",
  ],
} as const satisfies DestinationDescription;
