import { type EngineDescription, rotationFields, shareUntil } from "../description.ts";

export const description = {
  type: "https-producer",
  upstream: "https-producer",
  label: "HTTPS producer",
  about: "Leased credentials of any HTTPS API, by a definition of its calls.",
  paths: { config: "/config", rotate: "/config/rotate-root", dryRun: "/dry-run", roles: "/roles", issue: ["/creds"] },
  keepsConfig: true,
  config: {
    url: {
      placeholder: "https://gitlab.example.com",
      label: "URL",
      help: "The address that all calls are sent to, without a slash at its end.",
    },
    secrets: { label: "Secrets", help: "Values of `{{secrets.name}}` by name. Never returned.", secret: true },
    vars: { label: "Variables", help: "Values of `{{vars.name}}` by name, after those of roles." },
    producer: {
      rows: 16,
      label: "Definition",
      help: "The calls create, find, revoke, renew and verify as JSON, with pointers for results.",
    },
    signing_secret: {
      advanced: true,
      label: "Signing secret",
      help: "whsec_ and base64: calls are signed by Standard Webhooks.",
      secret: true,
    },
    ...rotationFields({ scheduled: "When the secrets are rotated, by `root` of the definition", period: "Rotates" }),
  },
  roles: {
    vars: { label: "Variables", help: "Values of `{{vars.name}}` by name, before those of the configuration." },
    ttl: { placeholder: "1h", label: "TTL", help: "Of leases by default; 0 is the mount's." },
    max_ttl: { placeholder: "24h", label: "Maximum TTL", help: "The most that a lease may live; 0 is the mount's." },
    share_until: shareUntil,
  },
  answer: {},
} as const satisfies EngineDescription;
