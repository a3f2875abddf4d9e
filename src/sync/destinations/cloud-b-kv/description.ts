import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

export const description = {
  type: "cloud-b-kv",
  upstream: "azure-kv",
  label: "Azure Key Vault",
  about: "A key vault, by an application's client secret",
  fields: {
    key_vault_uri: {
      label: "Vault URI",
      required: true,
      fixed: true,
      placeholder: "https://acme.vault.azure.net",
    },
    tenant_id: { label: "Tenant ID", required: true, fixed: true },
    client_id: { label: "Client ID", required: true },
    client_secret: { label: "Client secret", required: true, secret: true },
    ...identityTokenDescriptions,
    cloud: { label: "Cloud", help: "Empty is the public one.", fixed: true, advanced: true },
  },
  example: {
    key_vault_uri: "https://acme.vault.azure.net",
    tenant_id: "11111111-2222-4333-8444-555555555555",
    client_id: "66666666-7777-4888-9999-aaaaaaaaaaaa",
    client_secret: "made-up-client-secret",
  },
  sampleName: "vault-kv-1a2b3c4d-app-database",
  login: "client secret, or identity tokens",
  reads: "version",
  effect: "immediate",
  limits: "25 KB a value, names of 127 letters, digits and `-`, 300 new versions in 10 seconds",
  permissions: ["secrets: set, delete, recover", "secrets: list, get"],
} as const satisfies DestinationDescription;
