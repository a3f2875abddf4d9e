import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "edge-worker",
  upstream: "cloudflare-workers",
  label: "Cloudflare Workers",
  about: "Secrets of a Worker",
  fields: {
    account_id: { label: "Account ID", required: true, fixed: true, placeholder: "023e105f4ecef8ad9ca31a8372d0c353" },
    script_name: { label: "Worker", help: "Its name.", required: true, fixed: true, placeholder: "shop" },
    api_token: { label: "API token", required: true, secret: true },
  },
  example: { account_id: "023e105f4ecef8ad9ca31a8372d0c353", script_name: "shop", api_token: "made-up-token" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["EDGE_API_URL"],
  login: "API token",
  reads: "names",
  effect: "version",
  limits: "5 KB a value, 64 (free plan) or 128 variables and secrets a Worker, 1200 calls in 5 minutes",
  permissions: ["*Workers Scripts: Edit* of the account", "the same"],
} as const satisfies DestinationDescription;
