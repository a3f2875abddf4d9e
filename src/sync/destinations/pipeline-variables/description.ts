import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

export const description = {
  type: "pipeline-variables",
  upstream: "azure-devops",
  label: "Azure DevOps",
  about: "Secret variables of a variable group of Azure Pipelines",
  fields: {
    organization: { label: "Organization", required: true, fixed: true, placeholder: "acme" },
    project: { label: "Project", help: "Name or ID.", required: true, fixed: true, placeholder: "web" },
    variable_group_id: {
      label: "Variable group ID",
      help: "The number in the group's address.",
      required: true,
      fixed: true,
      placeholder: "42",
    },
    access_token: {
      label: "Access token",
      help: "A personal access token with Variable Groups: Read, create, & manage. Left empty: an application logs in.",
      secret: true,
    },
    tenant_id: { label: "Tenant ID", help: "Of the application." },
    client_id: { label: "Client ID", help: "Of the application, which is a user of the organization." },
    client_secret: { label: "Client secret", secret: true },
    ...identityTokenDescriptions,
  },
  example: {
    organization: "acme",
    project: "web",
    variable_group_id: 42,
    access_token: "made-up-access-token",
  },
  sampleName: "VAULT_KV_1A2B3C4D_APP_DATABASE_PASSWORD",
  settings: ["PIPELINE_VARIABLES_URL"],
  login: "personal access token, client secret, or identity tokens",
  reads: "names",
  effect: "immediate",
  limits:
    "32 000 bytes a value, names of 400 letters, digits and `_`; each write replaces the whole group, so a burst of changes is one call",
  permissions: ["Administrator of the variable group", "the same"],
} as const satisfies DestinationDescription;
