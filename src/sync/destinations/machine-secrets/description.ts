import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "machine-secrets",
  upstream: "fly",
  label: "Fly.io",
  about: "Secrets of an app",
  fields: {
    api_token: {
      label: "API token",
      help: "A deploy token of the app (fly tokens create deploy).",
      required: true,
      secret: true,
    },
    app: { label: "App", help: "Its name.", required: true, fixed: true, placeholder: "acme-api" },
  },
  example: { api_token: "FlyV1 fm2_madeUp", app: "acme-web" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["MACHINE_SECRETS_URL"],
  login: "deploy token of the app",
  reads: "version",
  effect: "next_deploy",
  limits: "names of letters, digits and `_`; one write a second of an app, so a burst of changes is one call",
  permissions: ["a deploy token of the app", "the same"],
} as const satisfies DestinationDescription;
