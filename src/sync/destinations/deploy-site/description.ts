import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "deploy-site",
  upstream: "netlify",
  label: "Netlify",
  about: "Environment variables of a site, or of all sites of a team",
  fields: {
    access_token: { label: "Access token", help: "A personal access token.", required: true, secret: true },
    account_id: { label: "Team ID", help: "Or slug.", required: true, fixed: true },
    site_id: { label: "Site ID", help: "Left empty: shared by all sites of the team.", fixed: true },
    deploy_context: {
      label: "Deploy context",
      help: "all, dev, branch-deploy, deploy-preview, production, or branch:NAME.",
      required: true,
      fixed: true,
      placeholder: "production",
    },
    is_secret: {
      label: "Secret",
      help: "Left empty: true, except in the contexts all and dev, where it is impossible.",
      fixed: true,
      advanced: true,
    },
    scopes: {
      label: "Scopes",
      help: "Of new variables: builds, functions, runtime or post-processing. Needs a paid plan.",
      advanced: true,
    },
  },
  example: { access_token: "nfp_madeUp", account_id: "acme", site_id: "site-1", deploy_context: "production" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["DEPLOY_SITE_URL"],
  login: "personal access token, which has all rights of its user",
  reads: "time",
  effect: "next_deploy",
  limits: "names of letters, digits and `_`; functions get at most 4 KB of variables together",
  permissions: ["a user who may change the team's or the site's variables", "the same"],
} as const satisfies DestinationDescription;
