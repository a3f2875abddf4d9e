import type { DestinationDescription } from "../../../src/sync/destinations/description.ts";

export const description = {
  type: "json-files",
  label: "JSON files",
  about: "Files of a folder behind HTTP: made up, to show how a type is added",
  fields: {
    url: { label: "URL", required: true, fixed: true, placeholder: "http://127.0.0.1:8080" },
    folder: { label: "Folder", required: true, fixed: true, placeholder: "app" },
    token: { label: "Token", required: true, secret: true },
  },
  example: { url: "http://127.0.0.1:8080", folder: "app", token: "made-up-token" },
  sampleName: "vault-kv-1a2b3c4d-app-database",
  login: "token",
  reads: "version",
  effect: "immediate",
  limits: "1000 bytes a value, names of 80 small letters, digits and `-`",
  permissions: ["a token of the folder", "the same"],
} as const satisfies DestinationDescription;
