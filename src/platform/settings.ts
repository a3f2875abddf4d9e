import * as z from "zod";
import { parseCron } from "../lib/cron.ts";
import { isSecureUrl, ORIGIN_RULE, originOf } from "../lib/origin.ts";
import { type DestinationSetting, destinationSettings } from "../sync/destinations/descriptions.ts";

/** `closed` or `open` for all, or by area: `secrets` is the secrets API, `cluster` the cluster API. */
const OnFailure = z
  .string()
  .regex(/^(closed|open|secrets=(closed|open),cluster=(closed|open))$/, "must be closed, open or secrets=…,cluster=…")
  .transform((text) => {
    const [, secrets = text, cluster = text] = /^secrets=(\w+),cluster=(\w+)$/.exec(text) ?? [];
    return { secrets, cluster };
  });

/** Headers as `name=value,name=value`, values percent-encoded, as in `OTEL_EXPORTER_OTLP_HEADERS`. */
const Headers = z
  .string()
  .regex(/^([\w-]+=[^,]*(,(?!$)|$))*$/, "must be name=value, with commas between")
  .transform((text) => Object.fromEntries(new URLSearchParams(text.replaceAll("+", "%2B").replaceAll(",", "&"))));

/** Addresses of other servers than the provider's own, by destination type. */
const addresses = Object.fromEntries(destinationSettings.map((name) => [name, z.string().optional()])) as Record<
  DestinationSetting,
  z.ZodOptional<z.ZodString>
>;

/** Settings of the deployment (docs/reference/settings.md): Worker variables and secrets, parsed once per isolate. */
export const Settings = z.object({
  ACL_TOKEN_SECRETS: z.enum(["on", "off"]).default("on"),
  DEV_ROOT_TOKEN: z.string().min(1).optional(),
  BOOTSTRAP_SECRET: z.string().min(1).optional(),
  ADMIN_NAMESPACE: z.string().default("admin"),
  AGENT_PING_MS: z.coerce.number().int().min(1_000).max(60_000).default(10_000),
  AUDIT_LOG: z.enum(["on", "off"]).default("on"),
  AUDIT_ADDRESS: z.enum(["hash", "plain", "none"]).default("hash"),
  AUDIT_BATCH_MS: z.coerce.number().int().min(10).max(2_000).default(200),
  AUDIT_HTTP_URL: z
    .string()
    .refine((text) => text === "" || isSecureUrl(text), "must be an https URL without credentials")
    .optional(),
  AUDIT_HTTP_FORMAT: z.enum(["generic", "datadog", "splunk"]).default("generic"),
  AUDIT_HTTP_TOKEN: z.string().optional(),
  AUDIT_ON_FAILURE: OnFailure.prefault("secrets=closed,cluster=open"),
  EVENT_BUFFER_LINES: z.coerce.number().int().min(1).default(100_000),
  EVENT_BUFFER_BYTES: z.coerce.number().int().min(1024).default(67_108_864),
  EVENT_HEARTBEAT_MS: z.coerce.number().int().min(50).default(10_000),
  EVENT_RELAYS: z.coerce.number().int().min(0).max(64).default(0),
  EVENT_STALL_MS: z.coerce.number().int().min(50).default(40_000),
  SERVICE_EVENTS: z
    .string()
    .regex(
      /^((Secret|Sync|Lease|Engine)(,(?!$)|$))*$/,
      "must be names of Secret, Sync, Lease and Engine, with commas between",
    )
    .default("Lease,Engine"),
  JURISDICTION: z.enum(["none", "eu", "us", "fedramp", "fedramp-high"]).default("none"),
  LOCATION_HINT: z
    .enum(["wnam", "enam", "sam", "weur", "eeur", "apac", "apac-ne", "apac-se", "oc", "afr", "me"])
    .optional(),
  NODE_GRACE_MS: z.coerce.number().int().min(1_000).max(3_600_000).default(60_000),
  READ_REPLICAS: z.coerce.number().int().min(0).max(64).default(1),
  RATE_LIMITS: z.enum(["on", "off"]).default("on"),
  ...addresses,
  CLOUD_A_STS_URL: z.string().optional(),
  CLOUD_A_IAM_URL: z.string().optional(),
  CLOUD_A_ACCESS_KEY_ID: z.string().optional(),
  CLOUD_A_SECRET_ACCESS_KEY: z.string().optional(),
  CLOUD_A_REGION: z.string().optional(),
  CLOUD_B_SUBSCRIPTION_ID: z.string().optional(),
  CLOUD_B_TENANT_ID: z.string().optional(),
  CLOUD_B_CLIENT_ID: z.string().optional(),
  CLOUD_B_CLIENT_SECRET: z.string().optional(),
  CLOUD_B_ENVIRONMENT: z.string().optional(),
  CLOUD_B_LOGIN_URL: z.string().optional(),
  CLOUD_B_GRAPH_URL: z.string().optional(),
  CLOUD_B_ARM_URL: z.string().optional(),
  CLOUD_C_TOKEN_URL: z.string().optional(),
  CLOUD_C_STS_URL: z.string().optional(),
  CLOUD_C_IAM_URL: z.string().optional(),
  CLOUD_C_API_URL: z.string().optional(),
  DNS_URL: z.string().optional(),
  OTLP_HEADERS: Headers.optional(),
  OTLP_URL: z
    .string()
    .regex(
      /^(https:\/\/\S+|http:\/\/(localhost|127\.0\.0\.1)([:/]\S*)?)?$/,
      "must be a URL with https, or of this machine",
    )
    .optional(),
  PRIVATE_HOSTS: z.string().optional(),
  PRIVATE_NETWORKS: z
    .string()
    .regex(/^[\s,]*(?:[^\s,=]+=[A-Za-z_]\w*(?:[\s,]+|$))*$/, "must be HOST=BINDING, with spaces or commas between")
    .optional(),
  PUBLIC_URL: z
    .string()
    .refine((text) => text === "" || originOf(text) !== null, ORIGIN_RULE)
    .optional(),
  REQUEST_BODY_MS: z.coerce.number().int().min(50).default(30_000),
  SNAPSHOT_CRON: z
    .string()
    .refine((text) => text === "" || parseCron(text) !== null, "must be a cron expression of five fields, in UTC")
    .optional(),
  SNAPSHOT_KEEP: z.coerce.number().int().min(1).max(1_000).default(7),
  SYNC_ALLOWED_HOSTS: z.string().optional(),
  SYNC_SCAN_MS: z.coerce.number().int().min(1_000).default(3_600_000),
});
export type Settings = z.infer<typeof Settings>;

const parsed = new WeakMap<object, Settings>();

/** The settings of `env`. Throws a ZodError with the name of the malformed setting. */
export function settings(env: object): Settings {
  let found = parsed.get(env);
  if (!found) {
    found = Settings.parse(env);
    parsed.set(env, found);
  }
  return found;
}
