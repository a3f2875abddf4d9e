import * as z from "zod";
import type { CountedLeaseQuota } from "../../contracts/quotas.ts";
import { unwrap } from "../../platform/http/errors.ts";
import { flag, integer } from "../../platform/http/fields.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { envelope, keyList, noContent } from "../server/respond.ts";
import { secrets } from "../server/route.ts";

/** Lease-count quotas (https://developer.hashicorp.com/vault/api-docs/system/lease-count-quotas). */

const MAX_PATH = 1_024;
const MAX_LEASES = 1_000_000_000;

const QuotaRequest = z.object({
  path: z.string().max(MAX_PATH).default(""),
  max_leases: integer().min(1).pipe(z.number().max(MAX_LEASES)),
  role: z.string().max(MAX_PATH).default(""),
  inheritable: flag().optional(),
  type: z
    .string()
    .refine((type) => type === "lease-count", "must be lease-count")
    .optional(),
});

const quotaJson = ({ counter, inheritable, max_leases, name, path, role }: CountedLeaseQuota) => ({
  counter,
  inheritable,
  max_leases,
  name,
  path,
  role,
  type: "lease-count",
});

export const leaseCountQuotaRoutes = [
  secrets("LIST /sys/quotas/lease-count", { fresh: true }, async (call) =>
    keyList(call, await accessControl(call.env).leaseQuotaNames()),
  ),
  secrets("GET /sys/quotas/lease-count/:name", { fresh: true }, async (call) => {
    const quota = unwrap(await accessControl(call.env).leaseQuota(call.params.name));
    return envelope(call, { data: quotaJson(quota), flat: true });
  }),
  secrets(
    "POST /sys/quotas/lease-count/:name",
    { fresh: true, body: QuotaRequest },
    async (call, { type: _type, ...quota }) => {
      unwrap(await accessControl(call.env).putLeaseQuota(call.params.name, quota));
      return noContent();
    },
  ),
  secrets("DELETE /sys/quotas/lease-count/:name", { fresh: true }, async (call) => {
    await accessControl(call.env).deleteLeaseQuota(call.params.name);
    return noContent();
  }),
];
