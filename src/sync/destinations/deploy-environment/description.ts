import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "deploy-environment",
  upstream: "railway",
  label: "Railway",
  about: "Variables of a service, or shared ones of an environment",
  fields: {
    access_token: { label: "Access token", help: "Of the environment, or a workspace.", required: true, secret: true },
    token_type: {
      label: "Token type",
      help: "Left empty: project, a token of one environment of a project.",
      choices: { project: "Project", workspace: "Workspace or account" },
    },
    project_id: { label: "Project ID", required: true, fixed: true },
    environment_id: { label: "Environment ID", required: true, fixed: true },
    service_id: { label: "Service ID", help: "Left empty: variables that services share.", fixed: true },
    skip_deploys: {
      label: "Skip deployments",
      help: "New values wait for the next deployment. Removals are deployed nevertheless.",
      advanced: true,
    },
  },
  example: {
    access_token: "made-up-token",
    project_id: "11111111-2222-4333-8444-555555555555",
    environment_id: "22222222-2222-4333-8444-555555555555",
  },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["DEPLOY_ENVIRONMENT_URL"],
  login: "token of a project's environment, or of a workspace",
  reads: "value",
  effect: "restarts",
  limits: "a burst of changes is one call and one deployment; 100 to 10 000 calls an hour, by plan",
  permissions: ["a project token of the environment", "the same"],
} as const satisfies DestinationDescription;
