import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

export const description = {
  type: "kv-v2",
  upstream: "vault-kv",
  label: "Vault or OpenBao",
  about: "A KV v2 engine of another Vault, OpenBao or Sallyport",
  fields: {
    address: {
      label: "Address",
      help: "Its host must be listed in the setting SYNC_ALLOWED_HOSTS.",
      required: true,
      fixed: true,
      placeholder: "https://vault.example.com:8200",
    },
    mount: {
      label: "Mount",
      help: "The path of the KV v2 engine.",
      required: true,
      fixed: true,
      placeholder: "secret",
    },
    target_namespace: { label: "Namespace", help: "Empty is the root namespace.", fixed: true },
    token: { label: "Token", help: "Without it, a role of the JWT auth method.", secret: true },
    ...identityTokenDescriptions,
    auth_role: { label: "Role", help: "Of the JWT auth method, for identity tokens.", advanced: true },
    auth_mount: { label: "Auth mount", help: "Of the JWT auth method. Empty is jwt.", advanced: true },
    delete_mode: {
      label: "Deletion",
      advanced: true,
      choices: { metadata: "All versions and the metadata", version: "The newest version only" },
    },
  },
  example: { address: "https://vault.example.com:8200", mount: "secret", token: "made-up-token" },
  sampleName: "vault/kv_1a2b3c4d/app/database",
  login: "token, or identity tokens",
  reads: "version",
  effect: "immediate",
  limits: "1 MB a secret (its storage decides), names of 512 characters, 62 tags",
  permissions: [
    "`create`, `update` and `read` on `data/*`; `create`, `update`, `patch`, `read` and `delete` on `metadata/*`; with `delete_mode=version` also `delete` on `data/*`",
    "`read` on `metadata/*`",
  ],
} as const satisfies DestinationDescription;
