import { type DestinationDescription, identityTokenDescriptions } from "../description.ts";

export const description = {
  type: "cluster-secrets",
  upstream: "kubernetes",
  label: "Kubernetes",
  about: "Secrets of a namespace of a Kubernetes cluster",
  fields: {
    host: {
      label: "API server",
      help: "Its host must be listed in the setting SYNC_ALLOWED_HOSTS, and its certificate be trusted.",
      required: true,
      fixed: true,
      placeholder: "https://cluster.example.com:6443",
    },
    namespace: { label: "Namespace", required: true, fixed: true, placeholder: "default" },
    token: { label: "Token", help: "Of a service account. Without it, identity tokens.", secret: true },
    secret_type: { label: "Type of the Secrets", help: "Empty is Opaque.", fixed: true, advanced: true },
    ...identityTokenDescriptions,
    access_client_id: { label: "Access client ID", help: "Of a service token of Cloudflare Access.", advanced: true },
    access_client_secret: { label: "Access client secret", secret: true, advanced: true },
  },
  example: { host: "https://cluster.example.com:6443", namespace: "default", token: "made-up-token" },
  sampleName: "vault-kv-1a2b3c4d-app-database",
  login: "token, or identity tokens",
  reads: "value",
  effect: "immediate",
  limits: "700 KB a Secret, names of 253 lower-case letters, digits, `-` and `.`",
  permissions: ["secrets: `get`, `create`, `patch`, `delete`", "secrets: `get`"],
} as const satisfies DestinationDescription;
