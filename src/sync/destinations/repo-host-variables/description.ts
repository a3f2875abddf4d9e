import type { DestinationDescription } from "../description.ts";
import { description as repoHost } from "../repo-host/description.ts";

const { application: _, ...fields } = repoHost.fields;

export const description = {
  type: "repo-host-variables",
  upstream: "gh-variables",
  label: "GitHub variables",
  about: "Variables of Actions, in plain text, of a repository, environment or organization",
  fields: {
    allow_plaintext: {
      label: "Allow plain text",
      help: "Must be true: everyone who may read the repository's settings and logs sees the values.",
      required: true,
    },
    ...fields,
  },
  example: { repository_owner: "acme", repository_name: "web", access_token: "ghp_madeUp", allow_plaintext: true },
  sampleName: "VAULT_KV_1A2B3C4D_APP_DATABASE_PASSWORD",
  login: repoHost.login,
  reads: "value",
  effect: "immediate",
  limits:
    "48 KB a value, names of letters, digits and `_`; 500 variables a repository, 100 an environment, 1000 an organization; 256 KB all values of a run together",
  permissions: [
    "Variables: write (environments: Environments: write; organizations: Organization variables: write)",
    "the same",
  ],
} as const satisfies DestinationDescription;
