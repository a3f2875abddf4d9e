import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "function-secrets",
  upstream: "supabase",
  label: "Supabase",
  about: "Secrets of a project's Edge Functions",
  fields: {
    access_token: {
      label: "Access token",
      help: "A personal access token, scoped to the project, or one of OAuth.",
      required: true,
      secret: true,
    },
    project_ref: {
      label: "Project ref",
      help: "20 letters, as in the project's address.",
      required: true,
      fixed: true,
      placeholder: "qrstuvwxyzabcdefghij",
    },
  },
  example: { access_token: "sbp_madeUp", project_ref: "abcdefghijklmnopqrst" },
  sampleName: "vault_kv_1a2b3c4d_app_database_password",
  settings: ["FUNCTION_SECRETS_URL"],
  login: "personal access token, or token of OAuth",
  reads: "version",
  effect: "immediate",
  limits:
    "24 KB a value, names of 256 letters, digits and `_`, not beginning with `SUPABASE_`; 120 calls a minute of a user",
  permissions: ["`edge_functions_secrets_write` and `_read` (OAuth: `secrets:write`, `secrets:read`)", "the same"],
} as const satisfies DestinationDescription;
