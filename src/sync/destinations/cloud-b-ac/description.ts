import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

export const description = {
  type: "cloud-b-ac",
  upstream: "azure-app-configuration",
  label: "Azure App Configuration",
  about: "Key-values of a store, as references to secrets of a key vault",
  fields: {
    endpoint: { label: "Endpoint", required: true, fixed: true, placeholder: "https://acme-web.azconfig.io" },
    key_vault_uri: {
      label: "Key vault URI",
      help: "The vault keeps the values and the store refers to them. Left empty: the store keeps the values.",
      fixed: true,
      placeholder: "https://acme.vault.azure.net",
    },
    label: { label: "Label", help: "Of the key-values, such as production; left empty, none.", fixed: true },
    tenant_id: { label: "Tenant ID", fixed: true },
    client_id: { label: "Client ID" },
    client_secret: { label: "Client secret", secret: true },
    access_key_id: {
      label: "Access key ID",
      help: "Of the store, instead of the application.",
      secret: true,
      advanced: true,
    },
    access_key_secret: { label: "Access key secret", secret: true, advanced: true },
    allow_plaintext: {
      label: "Allow plain text",
      help: "Must be true without a key vault: everyone who may read the store sees the values.",
      advanced: true,
    },
    pin_version: {
      label: "Pin the version",
      help: "References name the version of the secret. Left empty: false.",
      advanced: true,
    },
    ...identityTokenDescriptions,
    cloud: { label: "Cloud", help: "Empty is the public one.", fixed: true, advanced: true },
  },
  example: {
    endpoint: "https://acme-web.azconfig.io",
    key_vault_uri: "https://acme.vault.azure.net",
    tenant_id: "11111111-2222-4333-8444-555555555555",
    client_id: "66666666-7777-4888-9999-aaaaaaaaaaaa",
    client_secret: "made-up-client-secret",
  },
  sampleName: "vault/kv_1a2b3c4d/app/database/password",
  login: "client secret, identity tokens, or an access key of the store",
  reads: "version",
  effect: "immediate",
  limits:
    "25 KB a value in the key vault; 10 KB a key-value without one, its key and tags included; 30 000 calls an hour (free: 1 000 a day)",
  permissions: [
    "the role App Configuration Data Owner; in the key vault the secret permissions set, delete, recover",
    "the same; in the key vault also list, get",
  ],
} as const satisfies DestinationDescription;
