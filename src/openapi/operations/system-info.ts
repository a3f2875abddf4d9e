import * as z from "zod";
import { Quota, QuotasSettings, Rules } from "../../wire/access.ts";
import { anything, keysOf, time } from "../../wire/shapes.ts";
import { type Answers, data, group, noContent, type Operation, plain } from "../operation.ts";
import { SealStatus } from "./system.ts";

const flat = { flat: true } as const;

const Host = z.object({
  cpu: z.array(anything).max(0),
  cpu_times: z.array(anything).max(0),
  disk: z.array(anything).max(0),
  host: z.record(z.string(), z.union([z.string(), z.int()])),
  memory: z.record(z.string(), z.number()),
  timestamp: time,
});

const Node = z.object({
  hostname: z.string(),
  api_address: z.string(),
  cluster_address: z.string(),
  active_node: z.boolean(),
  last_echo: z.null(),
  version: z.string(),
});

const Rekey = z.object({
  nonce: z.string(),
  started: z.literal(false),
  t: z.int(),
  n: z.int(),
  progress: z.int(),
  required: z.int(),
  pgp_fingerprints: z.null(),
  backup: z.boolean(),
  verification_required: z.boolean(),
});

const RootGeneration = z.object({
  nonce: z.string(),
  started: z.literal(false),
  progress: z.int(),
  required: z.int(),
  complete: z.boolean(),
  encoded_token: z.string(),
  encoded_root_token: z.string(),
  pgp_fingerprint: z.string(),
  otp: z.string(),
  otp_length: z.int(),
});

const plugin = {
  name: z.string(),
  builtin: z.literal(true),
  version: z.string(),
  deprecation_status: z.string(),
};
const names = z.array(z.string());

const quotaPath = { name: "The quota's name." };

const Replication = z.object({ mode: z.literal("disabled") });

/** The operations of work in steps, of which none is ever in progress. */
const neverBegun = (path: string, id: string, work: string, answers: Answers): Record<string, Operation> => ({
  [`GET ${path}`]: { id: `read${id}`, summary: `Read the progress of ${work} (none)`, answers },
  [`DELETE ${path}`]: {
    id: `cancel${id}`,
    summary: `Cancel ${work} (none)`,
    description: "Nothing is ever in progress.",
  },
});
const GENERATION = "a root token's generation";

/** A count of objects over all namespaces. */
const counter = (counted: string) =>
  data(
    "The count, over all namespaces.",
    z.object({ counters: z.object({ [counted]: z.object({ total: z.int() }) }) }),
    flat,
  );

const random = {
  summary: "Generate random bytes",
  body: {
    fields: {
      bytes: "How many, 1 to 131072; 32 by default. A number in the path wins.",
      format: { type: "string", enum: ["base64", "hex"] },
      source: { type: "string", enum: ["platform", "seal", "all"], description: "All are the platform's generator." },
    },
  },
  answers: data("The bytes.", z.object({ random_bytes: z.string() }), flat),
};

const hash = {
  summary: "Hash data",
  body: {
    fields: {
      input: "Base64.",
      algorithm: { type: "string", enum: ["sha2-224", "sha2-256", "sha2-384", "sha2-512"] },
      format: { type: "string", enum: ["hex", "base64"] },
    },
  },
  answers: data("The digest.", z.object({ sum: z.string() }), flat),
};

export const systemInfo = group(
  "System",
  {
    source: "`platform`, `seal` or `all`, or the number of bytes.",
    bytes: "How many bytes, 1 to 131072.",
    algorithm: "As the field `algorithm`.",
    type: "`auth`, `database` or `secret`.",
    name: "The plugin's name.",
  },
  {
    "GET /sys/host-info": {
      id: "readHostInfo",
      summary: "Read host information",
      description: "The platform shows no host: figures are 0 and lists empty.",
      answers: data("The host.", Host, flat),
    },
    "GET /sys/license/features": {
      id: "readLicenseFeatures",
      summary: "List licensed features (none required)",
      answers: data("The features.", z.object({ features: names }), flat),
    },
    "GET /sys/license/status": {
      id: "readLicenseStatus",
      summary: "Read the license (none)",
      answers: data(
        "No license.",
        z.object({ autoloading_used: z.literal(false), autoloaded: z.null(), persisted_autoload: z.null() }),
        flat,
      ),
    },
    "GET /sys/replication/status": {
      id: "readReplicationStatus",
      summary: "Read the replication status (disabled)",
      answers: data("The status.", z.object({ dr: Replication, performance: Replication })),
    },
    "GET /sys/version": {
      id: "readVersion",
      summary: "Read the release of this service, and the upstream versions that it reports to their clients",
      answers: data(
        "The versions.",
        z.object({
          version: z.string(),
          build_date: time,
          upstream: z.object({ vault: z.string(), nomad: z.string() }),
        }),
        flat,
      ),
    },
    "GET /sys/experiments": {
      id: "readExperiments",
      summary: "List experimental features (none)",
      answers: data("No experiment.", z.object({ available: names, enabled: names }), flat),
    },
    "GET /sys/ha-status": {
      id: "readHaStatus",
      summary: "List servers (this service)",
      answers: data("The one server.", z.object({ nodes: z.array(Node) }), flat),
    },
    "GET /sys/config/state/sanitized": {
      id: "readSanitizedConfig",
      summary: "Read the configuration without secrets",
      answers: data("The configuration.", z.record(z.string(), anything), flat),
    },
    "LIST /sys/version-history": {
      id: "listVersions",
      summary: "List installed versions (the current one)",
      description: "No history is kept: `timestamp_installed` is the date of the build.",
      answers: data(
        "The versions.",
        keysOf({
          key_info: z.record(
            z.string(),
            z.object({ build_date: time, previous_version: z.null(), timestamp_installed: time }),
          ),
        }),
      ),
    },
    "GET /sys/internal/counters/requests": {
      id: "readRequestCounters",
      summary: "Read request counters (none: see the metrics)",
      answers: data("Empty.", z.object({ counters: z.array(anything).max(0) }), flat),
    },
    "GET /sys/internal/counters/tokens": {
      id: "readTokenCounters",
      summary: "Count service tokens",
      answers: counter("service_tokens"),
    },
    "GET /sys/internal/counters/entities": {
      id: "readEntityCounters",
      summary: "Count entities",
      answers: counter("entities"),
    },
    "GET /sys/internal/counters/activity": {
      id: "readActivity",
      summary: "Read client counts (not collected)",
      answers: noContent,
    },
    "GET /sys/internal/counters/activity/monthly": {
      id: "readMonthlyActivity",
      summary: "Read client counts of the month (not collected)",
      answers: noContent,
    },
    "GET /sys/internal/counters/config": {
      id: "readActivityConfig",
      summary: "Read the configuration of client counts (disabled)",
      answers: data("The configuration.", z.record(z.string(), anything), flat),
    },
    "GET /sys/plugins/catalog": {
      id: "readPluginCatalog",
      summary: "List built-in plugins",
      answers: data(
        "Names by type, and the details of each.",
        z.object({
          auth: names,
          database: names,
          secret: names,
          detailed: z.array(z.object({ type: z.string(), ...plugin })),
        }),
      ),
    },
    "LIST /sys/plugins/catalog/:type": { id: "listPluginsOfType", summary: "List built-in plugins of a type" },
    "GET /sys/plugins/catalog/:type/:name": {
      id: "readBuiltInPlugin",
      summary: "Read a built-in plugin",
      answers: data("The plugin.", z.object({ ...plugin, args: names, command: z.string(), sha256: z.string() }), flat),
    },
    "POST /sys/tools/random": { ...random, id: "randomBytes" },
    "POST /sys/tools/random/:source": { ...random, id: "randomBytesFrom" },
    "POST /sys/tools/random/:source/:bytes": { ...random, id: "randomBytesFromSized" },
    "POST /sys/tools/hash": { ...hash, id: "hashData" },
    "POST /sys/tools/hash/:algorithm": { ...hash, id: "hashDataWith" },
    "POST /sys/unseal": {
      id: "unseal",
      summary: "Unseal (no-op)",
      description: "There are no key shares: the body is not read. While sealed: 400.",
      answers: plain("The status.", SealStatus),
    },
    ...neverBegun("/sys/rekey/init", "Rekey", "a rekey", plain("The progress.", Rekey)),
    ...neverBegun("/sys/rotate/root/init", "RootRotation", "a root key's rotation", data("The progress.", Rekey)),
    ...neverBegun(
      "/sys/generate-root-token/attempt",
      "RootTokenGeneration",
      GENERATION,
      data("The progress.", RootGeneration),
    ),
    ...neverBegun("/sys/generate-root/attempt", "RootGeneration", GENERATION, plain("The progress.", RootGeneration)),
    "POST /sys/step-down": { id: "stepDown", summary: "Step down (no other server)" },
    "GET /sys/config/cors": {
      id: "readCors",
      summary: "Read the settings of cross-origin requests",
      answers: data(
        "The settings.",
        z.object({ enabled: z.boolean(), allowed_origins: names.optional(), allowed_headers: names.optional() }),
        flat,
      ),
    },
    "POST /sys/config/cors": {
      id: "writeCors",
      summary: "Allow cross-origin requests",
      description: "Once set, requests of browsers from other origins are refused with 403.",
      body: {
        fields: {
          allowed_origins: "Origins such as `https://app.example.com`, or `*` alone.",
          allowed_headers: "Names of request headers beside the service's own.",
        },
      },
    },
    "DELETE /sys/config/cors": { id: "deleteCors", summary: "Remove the settings of cross-origin requests" },
    "GET /sys/quotas/config": {
      id: "readQuotasConfig",
      summary: "Read the configuration of quotas",
      answers: data("The configuration.", QuotasSettings, flat),
    },
    "POST /sys/quotas/config": {
      id: "writeQuotasConfig",
      summary: "Configure quotas",
      body: {
        fields: {
          enable_rate_limit_response_headers: "Whether answers show the caller's limit (`X-Ratelimit-…`).",
          rate_limit_exempt_paths:
            "Paths of the root namespace that no quota counts, in any spelling of a caseless name; a final `*` makes a prefix.",
          absolute_rate_limit_exempt_paths: "Like these, in any namespace: paths from the root, with the namespace.",
          enable_rate_limit_audit_logging: "Only false: metrics count refused requests.",
        },
      },
    },
    "LIST /sys/quotas/rate-limit": { id: "listRateLimitQuotas", summary: "List rate-limit quotas" },
    "GET /sys/quotas/rate-limit/:name": {
      id: "readRateLimitQuota",
      summary: "Read a rate-limit quota",
      path: quotaPath,
      answers: data("The quota.", Quota, flat),
    },
    "POST /sys/quotas/rate-limit/:name": {
      id: "writeRateLimitQuota",
      summary: "Create or replace a rate-limit quota",
      description: "The most specific quota of a path counts: exact, prefix, mount, namespace, global.",
      path: quotaPath,
      body: {
        fields: {
          path: "Empty for every request, or a namespace, a mount, or a path in one; a final `*` makes a prefix.",
          rate: "Requests in each interval, of each client; rounded, at least 1.",
          interval: "1 second by default.",
          block_interval: "How long a refused client stays refused; 0 is until its interval ends.",
          inheritable: "Whether it counts in namespaces below; by default only for the empty path.",
          group_by: "`ip` counts each address, `none` all clients together.",
          type: "Only `rate-limit`.",
          role: "Only empty.",
          secondary_rate: "Only 0.",
        },
      },
    },
    "DELETE /sys/quotas/rate-limit/:name": {
      id: "deleteRateLimitQuota",
      summary: "Delete a rate-limit quota",
      path: quotaPath,
    },
    "GET /sys/internal/ui/resultant-acl": {
      id: "readResultantAcl",
      summary: "Read the path rules of the caller's token",
      answers: data(
        "The rules by path; globs without their final `*`.",
        z.object({ root: z.boolean(), exact_paths: Rules, glob_paths: Rules, chroot_namespace: z.literal("") }),
        flat,
      ),
    },
    "GET /sys/internal/ui/namespaces": {
      id: "listVisibleNamespaces",
      summary: "List child namespaces in which the caller has a capability",
      answers: data("Their names.", keysOf({})),
    },
    "GET /sys/rotate/config": {
      id: "readRotationConfig",
      summary: "Read the automatic rotation settings (off)",
      answers: data(
        "The configuration.",
        z.object({ enabled: z.literal(false), interval: z.int(), max_operations: z.int() }),
        flat,
      ),
    },
  },
);
