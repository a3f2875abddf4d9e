import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "deploy-service",
  upstream: "render",
  label: "Render",
  about: "Environment variables of a service or an environment group",
  fields: {
    api_key: { label: "API key", help: "Has all rights of its user.", required: true, secret: true },
    service_id: { label: "Service ID", help: "Or an environment group.", fixed: true, placeholder: "srv-d1a2b3c4e5f6" },
    env_group_id: {
      label: "Environment group ID",
      help: "In place of a service.",
      fixed: true,
      placeholder: "evg-d1a2b3c4e5f6",
    },
  },
  example: { api_key: "rnd_madeUp", service_id: "srv-d1a2b3c4e5f6" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["DEPLOY_SERVICE_URL"],
  login: "API key, which has all rights of its user",
  reads: "value",
  effect: "next_deploy",
  limits: "values are not empty; 30 writes and 400 reads a minute of a user",
  permissions: ["a user who may change the service's or the group's variables", "the same"],
} as const satisfies DestinationDescription;
