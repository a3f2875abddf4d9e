import * as z from "zod";
import { data, group, noContent } from "../../openapi/operation.ts";
import { keysOf } from "../../wire/shapes.ts";
import { leaseCountQuotaExamples } from "./examples.ts";

const Quota = z.object({
  name: z.string(),
  type: z.literal("lease-count"),
  path: z.string(),
  role: z.string(),
  max_leases: z.int(),
  counter: z.int().meta({ description: "Leases of the path at this moment." }),
  inheritable: z.boolean(),
});

export const leaseCountQuotas = group(
  "System",
  { name: "The quota's name." },
  {
    "LIST /sys/quotas/lease-count": {
      id: "listLeaseCountQuotas",
      summary: "List lease-count quotas",
      answers: data("Their names.", keysOf({})),
    },
    "GET /sys/quotas/lease-count/:name": {
      id: "readLeaseCountQuota",
      summary: "Read a lease-count quota",
      answers: data("The quota.", Quota, { flat: true }),
    },
    "POST /sys/quotas/lease-count/:name": {
      id: "writeLeaseCountQuota",
      summary: "Create or replace a lease-count quota",
      description: "The most specific quota of a path counts: role, exact, prefix, mount, namespace, global.",
      body: {
        fields: {
          path: "Empty for all leases, or a namespace, a mount, or a path in one; a final `*` makes a prefix.",
          max_leases: "Further leases are refused with 429.",
          role: "Only logins with this role or user; the path is that of an auth mount.",
          inheritable: "Whether it counts in namespaces below; by default only for the empty path.",
          type: "Only `lease-count`.",
        },
      },
      answers: noContent,
    },
    "DELETE /sys/quotas/lease-count/:name": {
      id: "deleteLeaseCountQuota",
      summary: "Delete a lease-count quota",
      answers: noContent,
    },
  },
  leaseCountQuotaExamples,
);
