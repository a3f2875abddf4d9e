import type { EngineDescription } from "../../../src/credentials/engines/description.ts";

export const description = {
  type: "made-up",
  upstream: "madeup",
  label: "Directory of files",
  about: "Keys of a service that keeps them as files.",
  paths: { config: "/config", rotate: "/rotate-root", roles: "/roles", issue: ["/creds", "/app/:name/token"] },
  config: {
    url: { label: "URL", help: "The service's address." },
    key: { label: "Root key", help: "The key that the engine makes keys with.", secret: true },
  },
  documents: { "/config/lives": { session: { label: "Session", help: "Seconds that a session lives." } } },
  roles: {
    session: { label: "Session", help: "Keys that nothing removes before their end." },
    tier: { label: "Tier", help: "What the key may do.", upstream: "level", values: [["basic", "Standard"]] },
    ttl: { label: "TTL" },
    max_ttl: { label: "Maximum TTL" },
  },
  kinds: [
    {
      path: "/static-role",
      lists: ["/static-roles"],
      rotate: ["/static-role/:name/rotate"],
      issue: ["/static-role/:name/key"],
      fields: { tier: { label: "Tier", help: "What the key may do." } },
    },
    {
      path: "/kept-role",
      lists: ["/kept-roles"],
      rotate: ["/rotate-kept-role/:name"],
      issue: [],
      reads: ["/kept-creds"],
      answersWrites: true,
      fields: { owner: { label: "Owner", help: "Whose key it is." }, period: { label: "Period" } },
    },
  ],
  answer: { key: { label: "Key", secret: true } },
} as const satisfies EngineDescription;
