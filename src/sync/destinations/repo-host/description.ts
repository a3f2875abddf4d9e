import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "repo-host",
  upstream: "gh",
  label: "GitHub secrets",
  about: "Secrets of Actions, Dependabot or Codespaces in a repository, environment or organization",
  fields: {
    repository_owner: { label: "Owner", fixed: true, placeholder: "acme" },
    repository_name: { label: "Repository", fixed: true, placeholder: "web" },
    access_token: { label: "Access token", secret: true },
    app_name: { label: "Application", help: "Instead of an access token: one of the tab GitHub apps." },
    installation_id: { label: "Installation ID", help: "Of the application, for this owner." },
    environment_name: {
      label: "Environment",
      help: "Left empty: secrets of the repository.",
      fixed: true,
      advanced: true,
    },
    secrets_location: {
      label: "Location",
      fixed: true,
      advanced: true,
      choices: { repository: "Repository", organization: "Organization" },
    },
    organization_name: {
      label: "Organization",
      help: "With the location organization: instead of owner and repository.",
      fixed: true,
      advanced: true,
    },
    organization_visibility: {
      label: "Visible in",
      help: "Of an organization: all, private or selected repositories.",
      fixed: true,
      advanced: true,
    },
    selected_repository_names: {
      label: "Selected repositories",
      help: "Of an organization: names, with the visibility selected.",
      fixed: true,
      advanced: true,
    },
    application: {
      label: "Secrets of",
      help: "Left empty: Actions. Environments have secrets of Actions only.",
      fixed: true,
      advanced: true,
      choices: { actions: "Actions", dependabot: "Dependabot", codespaces: "Codespaces" },
    },
    enterprise_url: { label: "Enterprise URL", help: "Of your own GitHub server.", advanced: true },
  },
  example: { repository_owner: "acme", repository_name: "web", access_token: "ghp_madeUp" },
  sampleName: "VAULT_KV_1A2B3C4D_APP_DATABASE_PASSWORD",
  settings: ["REPO_HOST_URL"],
  login: "access token, or GitHub App",
  reads: "time",
  effect: "immediate",
  limits: "48 KB a value, names of letters, digits and `_`, 100 secrets a repository",
  permissions: [
    "Secrets, Dependabot secrets or Codespaces secrets: write (environments: Environments: write; organizations: the same of the organization)",
    "the same",
  ],
} as const satisfies DestinationDescription;
