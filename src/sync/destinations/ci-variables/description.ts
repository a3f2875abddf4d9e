import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "ci-variables",
  upstream: "gitlab",
  label: "GitLab CI/CD",
  about: "CI/CD variables of a project, a group or the instance",
  fields: {
    access_token: { label: "Access token", help: "With the scope api.", required: true, secret: true },
    project_id: { label: "Project ID", help: "Number or path; or a group.", fixed: true, placeholder: "acme/web" },
    group_id: { label: "Group ID", help: "Number or path, instead of a project.", fixed: true },
    location: {
      label: "Location",
      help: "Left empty: the project, or the group.",
      fixed: true,
      advanced: true,
      choices: { project: "Project", group: "Group", instance: "Instance" },
    },
    environment_scope: {
      label: "Environment scope",
      help: "Such as production or review/*; left empty, all environments.",
      fixed: true,
    },
    address: {
      label: "Address",
      help: "Of your own GitLab; its host must be listed in the setting SYNC_ALLOWED_HOSTS.",
      fixed: true,
      advanced: true,
      placeholder: "https://gitlab.example.com",
    },
    masking: {
      label: "Masking",
      help: "In job logs. Required: a value that cannot be masked is refused. Left empty: best effort.",
      advanced: true,
      choices: { "best-effort": "Best effort", required: "Required", off: "Off" },
    },
    hidden: { label: "Hidden", help: "New variables never show their values again.", fixed: true, advanced: true },
    protected: {
      label: "Protected",
      help: "For protected branches and tags only: other jobs find no variable.",
      advanced: true,
    },
    raw: { label: "Raw", help: "Left empty: true. False expands $NAME in values.", advanced: true },
    variable_type: {
      label: "Variable type",
      help: "Left empty: env_var.",
      advanced: true,
      choices: { env_var: "Variable", file: "File" },
    },
  },
  example: { access_token: "glpat-made-up", project_id: "acme/web", environment_scope: "production" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["CI_VARIABLES_URL"],
  login: "access token of a project, a group or a user",
  reads: "value",
  effect: "immediate",
  limits:
    "names of 255 letters, digits and `_`; 10 000 characters a value of the instance; 8 000 variables a project, 30 000 a group; masked values have at least 8 characters and no spaces",
  permissions: [
    "a token with the scope `api` and the role Maintainer (group: Owner; instance: an administrator)",
    "the same",
  ],
} as const satisfies DestinationDescription;
