import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "deploy-project",
  upstream: "vercel-project",
  label: "Vercel",
  about: "Environment variables of a project",
  fields: {
    access_token: { label: "Access token", required: true, secret: true },
    project_id: { label: "Project ID", required: true, fixed: true },
    deployment_environments: {
      label: "Environments",
      help: "development, preview or production.",
      required: true,
    },
    team_id: { label: "Team ID", help: "Of a project that belongs to a team." },
  },
  example: { access_token: "made-up-token", project_id: "prj_1", deployment_environments: ["production"] },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["DEPLOY_PROJECT_URL"],
  login: "access token",
  reads: "time",
  effect: "next_deploy",
  limits: "64 KiB all values of a deployment together, names of 256 letters, digits and `_`",
  permissions: ["an API token for the project's team", "the same"],
} as const satisfies DestinationDescription;
