import type { Examples } from "../../openapi/example.ts";

const STORED = "lease-quotas › are stored and shown with their counter";

export const leaseCountQuotaExamples: Examples = {
  "LIST /sys/quotas/lease-count": { right: "list" },
  "GET /sys/quotas/lease-count/:name": { right: "read" },
  "POST /sys/quotas/lease-count/:name": {
    right: "update",
    body: { path: "", max_leases: 1000, role: "", inheritable: true, type: "lease-count" },
    effects: { "path max_leases role inheritable type": STORED },
  },
  "DELETE /sys/quotas/lease-count/:name": { right: "delete" },
};
