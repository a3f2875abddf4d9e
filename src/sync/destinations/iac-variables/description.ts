import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "iac-variables",
  upstream: "hcp-terraform",
  label: "HCP Terraform",
  about: "Variables of a workspace or a variable set, in HCP Terraform or Terraform Enterprise",
  fields: {
    access_token: { label: "Access token", help: "Of a team.", required: true, secret: true },
    workspace_id: { label: "Workspace ID", help: "Or a variable set.", fixed: true, placeholder: "ws-…" },
    varset_id: { label: "Variable set ID", help: "Instead of a workspace.", fixed: true, placeholder: "varset-…" },
    category: {
      label: "Category",
      help: "Left empty: env.",
      fixed: true,
      choices: { env: "Environment variables", terraform: "Terraform variables" },
    },
    sensitive: {
      label: "Sensitive",
      help: "Left empty: true. Sensitive values are never shown again.",
      fixed: true,
      advanced: true,
    },
    hcl: { label: "HCL", help: "Values of Terraform variables are expressions.", fixed: true, advanced: true },
    address: {
      label: "Address",
      help: "Of your own Terraform Enterprise; its host must be listed in the setting SYNC_ALLOWED_HOSTS.",
      fixed: true,
      advanced: true,
      placeholder: "https://terraform.example.com",
    },
  },
  example: { access_token: "made-up.atlasv1.token", workspace_id: "ws-madeUp1234567890" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["IAC_VARIABLES_URL"],
  login: "access token of a team, a user or an organization",
  reads: "version",
  effect: "next_deploy",
  limits: "256 KiB a value, names of 128 letters, digits and `_`, 30 calls a second",
  permissions: [
    "workspace: read and write variables; variable set: Manage workspaces (or the set's own permission)",
    "the same",
  ],
} as const satisfies DestinationDescription;
