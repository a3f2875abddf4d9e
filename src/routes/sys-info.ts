import type { Dialect } from "../compat/dialect.ts";
import { translateMountType } from "../compat/engine-names.ts";
import { ORCHESTRATOR_VERSION } from "../compat/orchestrator.ts";
import { AUTH_TYPES } from "../contracts/auth.ts";
import { badRequest, notFound } from "../platform/http/errors.ts";
import { BUILD_DATE, CLUSTER_NAME, PLUGIN_VERSION, RELEASE, VERSION } from "../platform/version.ts";
import { mountTypes } from "../rights/mount-routes.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, open, secrets } from "./server/route.ts";
import { refuses } from "./server/unsent.ts";

/**
 * Descriptions of the deployment that operators' tools read
 * (https://developer.hashicorp.com/vault/api-docs/system/host-info and its neighbours). The platform shows a Worker no
 * host, so figures of one are 0 and lists empty.
 */

const originOf = (call: AuthorisedCall): string => new URL(call.request.url).origin;

const HOST = {
  hostname: CLUSTER_NAME,
  uptime: 0,
  bootTime: 0,
  procs: 0,
  os: "workers",
  platform: "cloudflare-workers",
  platformFamily: "",
  platformVersion: "",
  kernelVersion: "",
  kernelArch: "",
  virtualizationSystem: "isolate",
  virtualizationRole: "guest",
  hostid: "",
};
const MEMORY = { total: 0, available: 0, used: 0, usedPercent: 0, free: 0 };

const NO_REPLICATION = { mode: "disabled" };

const VERSIONS = {
  [VERSION]: { build_date: BUILD_DATE, previous_version: null, timestamp_installed: BUILD_DATE },
};

const node = (call: AuthorisedCall) => ({
  hostname: CLUSTER_NAME,
  api_address: originOf(call),
  cluster_address: "",
  active_node: true,
  last_echo: null,
  version: VERSION,
});

const sanitized = (call: AuthorisedCall) => ({
  api_addr: originOf(call),
  cluster_addr: "",
  cluster_name: CLUSTER_NAME,
  disable_clustering: true,
  default_lease_ttl: 0,
  max_lease_ttl: 0,
  log_level: "",
  log_format: "json",
  listeners: [{ type: "worker", config: null }],
  seals: [{ type: "keyring", disabled: false }],
  storage: { type: "durable-object", cluster_addr: "", redirect_addr: "", disable_clustering: true },
});

/** Built-in plugins by upstream's type. */
const pluginsOf = (dialect: Dialect): Readonly<Record<string, readonly string[]>> => ({
  auth: [...AUTH_TYPES].sort(),
  database: [],
  secret: mountTypes()
    .map((type) => translateMountType(dialect, type))
    .sort(),
});

const PLUGIN = { builtin: true, version: PLUGIN_VERSION, deprecation_status: "supported" };

function namesOf(call: AuthorisedCall<"type">): readonly string[] {
  const plugins = pluginsOf(call.dialect);
  const type = call.params.type;
  const names = Object.hasOwn(plugins, type) ? plugins[type] : undefined;
  if (!names) throw badRequest(`type: must be one of ${Object.keys(plugins).join(", ")}`);
  return names;
}

async function readPlugin(call: AuthorisedCall<"name" | "type">): Promise<Response> {
  const name = call.params.name;
  if (!namesOf(call).includes(name)) throw notFound();
  return envelope(call, { data: { ...PLUGIN, name, args: [], command: "", sha256: "" }, flat: true });
}

const refusePlugin = refuses(400, "plugins: every plugin is built in; none can be registered or removed");

const read = (path: string, data: (call: AuthorisedCall) => object | Promise<object>) =>
  secrets(`GET ${path}`, async (call) => envelope(call, { data: await data(call), flat: true }));

export const infoRoutes = [
  read("/sys/host-info", () => ({
    cpu: [],
    cpu_times: [],
    disk: [],
    host: HOST,
    memory: MEMORY,
    timestamp: new Date().toISOString(),
  })),
  // No license is needed: the features are those of this service that upstream sells.
  read("/sys/license/features", () => ({ features: ["Namespaces", "Secrets Sync"] })),
  read("/sys/license/status", () => ({ autoloading_used: false, autoloaded: null, persisted_autoload: null })),
  open("GET /sys/replication/status", async (call) =>
    envelope(call, { data: { dr: NO_REPLICATION, performance: NO_REPLICATION } }),
  ),
  // Not upstream's: there, a server has one version, which this service reports for compatibility.
  read("/sys/version", () => ({
    version: RELEASE,
    build_date: BUILD_DATE,
    upstream: { vault: VERSION, nomad: ORCHESTRATOR_VERSION },
  })),
  read("/sys/experiments", () => ({ available: [], enabled: [] })),
  read("/sys/ha-status", (call) => ({ nodes: [node(call)] })),
  read("/sys/config/state/sanitized", sanitized),
  secrets("LIST /sys/version-history", async (call) => keyList(call, [VERSION], { key_info: VERSIONS })),
  // Requests are counted in the metrics; upstream's own counter has been empty since it was deprecated.
  read("/sys/internal/counters/requests", () => ({ counters: [] })),
  read("/sys/internal/counters/tokens", async (call) => ({
    counters: { service_tokens: { total: await accessControl(call.env).countTokens() } },
  })),
  read("/sys/internal/counters/entities", async (call) => ({
    counters: { entities: { total: await accessControl(call.env).countEntities() } },
  })),
  // Clients are not counted: the same answer as upstream's before the first count.
  ...["/sys/internal/counters/activity", "/sys/internal/counters/activity/monthly"].map((path) =>
    secrets(`GET ${path}`, async () => noContent()),
  ),
  read("/sys/internal/counters/config", () => ({
    enabled: "disable",
    queries_available: false,
    default_report_months: 12,
    retention_months: 0,
    reporting_enabled: false,
    billing_start_timestamp: null,
  })),
  secrets("GET /sys/plugins/catalog", async (call) => {
    const plugins = pluginsOf(call.dialect);
    const detailed = Object.entries(plugins).flatMap(([type, names]) =>
      names.map((name) => ({ name, type, ...PLUGIN })),
    );
    return envelope(call, { data: { ...plugins, detailed } });
  }),
  secrets("LIST /sys/plugins/catalog/:type", { access: "sudo" }, async (call) => keyList(call, namesOf(call))),
  secrets("GET /sys/plugins/catalog/:type/:name", { access: "sudo" }, readPlugin),
  ...(["POST", "DELETE"] as const).map((verb) =>
    secrets(`${verb} /sys/plugins/catalog/:type/:name`, { access: "sudo", refuses: true }, refusePlugin),
  ),
];
