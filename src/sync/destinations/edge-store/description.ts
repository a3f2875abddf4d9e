import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "edge-store",
  upstream: "cloudflare-secrets-store",
  label: "Cloudflare Secrets Store",
  about: "Secrets of an account's store, for Workers and other services",
  fields: {
    account_id: { label: "Account ID", required: true, fixed: true, placeholder: "023e105f4ecef8ad9ca31a8372d0c353" },
    store_id: { label: "Store ID", required: true, fixed: true, placeholder: "8f7a1cdced6342c18d223ece462fd88d" },
    api_token: { label: "API token", required: true, secret: true },
    scopes: {
      label: "Scopes",
      help: "Services that may use the secrets, such as workers, the default.",
      advanced: true,
    },
  },
  example: {
    account_id: "023e105f4ecef8ad9ca31a8372d0c353",
    store_id: "8f7a1cdced6342c18d223ece462fd88d",
    api_token: "made-up-token",
  },
  sampleName: "vault_kv_1a2b3c4d_app_database",
  settings: ["EDGE_STORE_API_URL"],
  login: "API token",
  reads: "time",
  effect: "immediate",
  limits: "64 KiB a value, names of 255 letters, digits, `_` and `-`, 100 secrets an account",
  permissions: ["*Secrets Store Write* of the account", "*Secrets Store Read*"],
} as const satisfies DestinationDescription;
