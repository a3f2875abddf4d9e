import type { DestinationDescription } from "../description.ts";

export const description = {
  type: "in-mem",
  label: "In memory",
  about: "Kept in the service itself: to try things out, without an account",
  fields: {},
  sampleName: "vault/kv_1a2b3c4d/app/database",
  login: "none",
  reads: "value",
  effect: "immediate",
  limits: "those of AWS Secrets Manager",
  permissions: ["none", "none"],
} as const satisfies DestinationDescription;
