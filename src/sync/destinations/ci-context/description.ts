import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "ci-context",
  upstream: "circleci",
  label: "CircleCI",
  about: "Environment variables of a context or a project",
  fields: {
    access_token: { label: "Access token", help: "A personal API token.", required: true, secret: true },
    context_id: { label: "Context ID", help: "Or a project.", fixed: true },
    project_slug: {
      label: "Project slug",
      help: "Instead of a context.",
      fixed: true,
      placeholder: "gh/acme/web",
    },
    address: {
      label: "Address",
      help: "Of your own CircleCI server; its host must be listed in the setting SYNC_ALLOWED_HOSTS.",
      fixed: true,
      advanced: true,
      placeholder: "https://circleci.example.com",
    },
  },
  example: { access_token: "CCIPAT_madeUp", context_id: "f31d7249-b7b1-4729-b3a4-ec0ba07b4686" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["CI_CONTEXT_URL"],
  login: "personal access token, which has all rights of its user",
  reads: "time",
  effect: "immediate",
  limits:
    "32 000 bytes a value, names of 300 letters, digits and `_`, 100 variables a context, 500 contexts an organization",
  permissions: ["a user who may change the context or the project", "the same"],
} as const satisfies DestinationDescription;
