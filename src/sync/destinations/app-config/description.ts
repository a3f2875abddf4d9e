import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "app-config",
  upstream: "heroku",
  label: "Heroku",
  about: "Config vars of an app",
  fields: {
    access_token: {
      label: "Access token",
      help: "Of an authorization with the scope write-protected.",
      required: true,
      secret: true,
    },
    app: { label: "App", help: "Name or ID.", required: true, fixed: true, placeholder: "acme-web" },
  },
  example: { access_token: "HRKU-madeUp", app: "acme-web" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["APP_CONFIG_URL"],
  login: "access token",
  reads: "value",
  effect: "restarts",
  limits: "64 KB all config vars of an app together; each call is a release, so a burst of changes is one call",
  permissions: ["the scope `write-protected`, of a user who may deploy and manage the app", "the same"],
} as const satisfies DestinationDescription;
