import * as z from "zod";
import type { QuotasConfig, RateLimitQuota } from "../contracts/quotas.ts";
import { withoutUndefined } from "../lib/json.ts";
import { unwrap } from "../platform/http/errors.ts";
import { duration, flag, stringList } from "../platform/http/fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** Rate-limit quotas (https://developer.hashicorp.com/vault/api-docs/system/rate-limit-quotas). */

const MAX_RATE = 1_000_000_000;
const MAX_PATH = 1_024;
const MAX_EXEMPT = 100;
const DEFAULT_INTERVAL_S = 1;

/** A field of upstream that only its default value may have here. */
const only = (wanted: string, because: string) =>
  z
    .string()
    .refine((value) => value === wanted, because)
    .optional();

const number = () =>
  z.preprocess(
    (value) => (typeof value === "string" && value.trim() !== "" ? Number(value) : value),
    z.number("must be a number"),
  );

const QuotaRequest = z.object({
  path: z.string().max(MAX_PATH).default(""),
  rate: number().pipe(z.number().positive("'rate' is invalid: must be greater than 0").max(MAX_RATE)),
  interval: duration().default(DEFAULT_INTERVAL_S),
  block_interval: duration().default(0),
  inheritable: flag().optional(),
  group_by: z.enum(["ip", "none"], "must be ip or none").default("ip"),
  type: only("rate-limit", "must be rate-limit"),
  role: only("", "quotas by role are not offered: name the path of the login"),
  secondary_rate: number()
    .refine((rate) => rate === 0, "is not offered: there is no grouping by entity")
    .optional(),
});

const paths = () =>
  stringList()
    .pipe(z.array(z.string().max(MAX_PATH)).max(MAX_EXEMPT, `at most ${MAX_EXEMPT}`))
    .optional();

const ConfigRequest = z.object({
  enable_rate_limit_response_headers: flag().optional(),
  rate_limit_exempt_paths: paths(),
  absolute_rate_limit_exempt_paths: paths(),
  enable_rate_limit_audit_logging: flag()
    .refine((enabled) => !enabled, "refused requests are counted in the metrics, and not in the audit log")
    .optional(),
});

const nameOf = (call: AuthorisedCall<"name">): string => call.params.name;

const quotaJson = (quota: RateLimitQuota) => ({ ...quota, type: "rate-limit", role: "", secondary_rate: 0 });

const configJson = (config: QuotasConfig) => ({
  ...config,
  enable_rate_limit_audit_logging: false,
});

export const quotaRoutes = [
  secrets("GET /sys/quotas/config", { fresh: true }, async (call) =>
    envelope(call, { data: configJson(await accessControl(call.env).quotasConfig()), flat: true }),
  ),
  secrets(
    "POST /sys/quotas/config",
    { fresh: true, body: ConfigRequest },
    async (call, { enable_rate_limit_audit_logging: _refused, ...changes }) => {
      await accessControl(call.env).setQuotasConfig(withoutUndefined(changes));
      return noContent();
    },
  ),
  secrets("LIST /sys/quotas/rate-limit", { fresh: true }, async (call) => {
    const quotas = await accessControl(call.env).rateLimitQuotas();
    return keyList(call, quotas.map(({ name }) => name).sort());
  }),
  secrets("GET /sys/quotas/rate-limit/:name", { fresh: true }, async (call) => {
    const quota = unwrap(await accessControl(call.env).rateLimitQuota(nameOf(call)));
    return envelope(call, { data: quotaJson(quota), flat: true });
  }),
  secrets(
    "POST /sys/quotas/rate-limit/:name",
    { fresh: true, body: QuotaRequest },
    async (call, { type: _type, role: _role, secondary_rate: _secondary, ...quota }) => {
      const interval = quota.interval || DEFAULT_INTERVAL_S;
      unwrap(await accessControl(call.env).putRateLimitQuota(nameOf(call), { ...quota, interval }));
      return noContent();
    },
  ),
  secrets("DELETE /sys/quotas/rate-limit/:name", { fresh: true }, async (call) => {
    await accessControl(call.env).deleteRateLimitQuota(nameOf(call));
    return noContent();
  }),
];
