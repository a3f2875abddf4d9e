import { mapLimit } from "../../../relay/src/wait.ts";
import { type Api, ApiError, encoded, type Fields } from "../api.ts";
import { VERSION } from "../version.ts";
import { type Finding, few, findings, guarded } from "./finding.ts";
import { lastSnapshot, type Metrics, metricFindings, readMetrics } from "./metrics.ts";

/** Checks by reads of the public API. Each says which right it lacks. */

const DAY_MS = 24 * 3600 * 1000;
const MAX_NAMESPACES = 200;
const MAX_CONCURRENT = 8;

type Check = (api: Api) => Promise<Finding[]>;

const version: Check = (api) =>
  guarded("version", "read on sys/version", async () => {
    const { ok, warning } = findings("version");
    const { version: there } = (await api.fields("sys/version")) ?? {};
    if (there === VERSION) return [ok(`${there}, as this program`)];
    return [
      warning(
        `the service is ${there ?? "older than 0.2.0"}, this program ${VERSION}`,
        "use the program of the same release",
      ),
    ];
  });

const token: Check = (api) =>
  guarded("token", "read on auth/token/lookup-self", async () => {
    const { ok, warning, problem } = findings("token");
    let fields: Fields;
    try {
      fields = (await api.fields("auth/token/lookup-self")) ?? {};
    } catch (failure) {
      if (!(failure instanceof ApiError && failure.status === 403 && failure.reason.includes("invalid token")))
        throw failure;
      return [problem("it is unknown or expired", "log in again, or see SALLYPORT_TOKEN and SALLYPORT_TOKEN_FILE")];
    }
    const { policies, expire_time, num_uses } = fields;
    const named = `policies ${(policies ?? []).join(", ") || "none"}`;
    const leftMs = typeof expire_time === "string" ? Date.parse(expire_time) - Date.now() : Number.POSITIVE_INFINITY;
    if (num_uses > 0)
      return [warning(`${named}; ${num_uses} uses left, which these checks spend`, "use another token")];
    if (leftMs < DAY_MS)
      return [warning(`${named}; expires in ${Math.round(leftMs / 3_600_000)} h`, "renew the token")];
    return [ok(named)];
  });

const audit: Check = (api) =>
  guarded("audit", "read and sudo on sys/audit", async () => {
    const { ok, warning, problem } = findings("audit");
    const sinks = Object.keys((await api.fields("sys/audit")) ?? {}).map((name) => name.replace(/\/$/, ""));
    if (sinks.length === 0)
      return [problem("no audit log is written", "set AUDIT_LOG=on, or a sink: docs/operate/audit.md#sinks")];
    if (sinks.join() === "log")
      return [
        warning(
          "the audit log has no sink: what stores the service's log may keep a sample of it",
          "set AUDIT_HTTP_URL, or on Cloudflare bind AUDIT_BUCKET: docs/operate/audit.md#sinks",
        ),
      ];
    return [ok(`written to ${sinks.join(", ")}`)];
  });

const snapshots: Check = (api) =>
  guarded("snapshots", `list and sudo on sys/snapshot, and without a bucket ${METRICS_RIGHT}`, async () => {
    const { ok, warning, problem } = findings("snapshots");
    let fields: Fields;
    try {
      fields = (await api.fields("sys/snapshot", { list: "true" })) ?? {};
    } catch (failure) {
      if (!(failure instanceof ApiError && failure.status === 400)) throw failure;
      return lastSnapshot(await metricsOf(api));
    }
    const times = Object.values((fields["key_info"] ?? {}) as Record<string, Fields>).map(({ taken }) =>
      Date.parse(taken),
    );
    if (times.length === 0)
      return [problem("the bucket has no snapshot", "on Cloudflare set SNAPSHOT_CRON: docs/operate/backup.md")];
    const days = (Date.now() - Math.max(...times)) / DAY_MS;
    const text = `${times.length}, the newest ${days.toFixed(1)} days old`;
    return days > 2
      ? [warning(text, "on Cloudflare check SNAPSHOT_CRON and the cron trigger: docs/operate/backup.md")]
      : [ok(text)];
  });

const agents: Check = (api) =>
  guarded("agents", 'node { policy = "read" }', async () => {
    const { ok, problem } = findings("agents");
    const { text } = await api.call("GET", "agents");
    const rows = JSON.parse(text) as { Name: string; NodeID: string; Connected: boolean; LastSeen: string | null }[];
    const away = rows.filter(({ Connected }) => !Connected);
    if (away.length === 0) return [ok(`${rows.length} connected`)];
    const names = away.map(({ Name, NodeID, LastSeen }) => `${Name || NodeID} (last seen ${LastSeen ?? "never"})`);
    const action =
      "see the agent's log on the node: docs/guides/agent.md; DELETE /v1/agent/NODE removes one that is gone";
    return [problem(`${away.length} of ${rows.length} are away: ${few(names)}`, action)];
  });

async function metricsOf(api: Api): Promise<Metrics> {
  const query = { format: "prometheus" };
  const cluster = await api.call("GET", "metrics", { query, accept: [403] });
  const { text } = cluster.status === 403 ? await api.call("GET", "sys/metrics", { query }) : cluster;
  return readMetrics(text);
}

const METRICS_RIGHT = 'agent { policy = "read" }, or read on sys/metrics';

const metrics: Check = (api) =>
  guarded("metrics", METRICS_RIGHT, async () => metricFindings(await metricsOf(api), Date.now()));

/** The namespace with those below it, as far as the token may list them. */
async function namespacesOf(root: Api): Promise<Api[]> {
  const found = [root];
  for (const api of found) {
    if (found.length >= MAX_NAMESPACES) break;
    const names = await api.list("sys/namespaces").catch((failure: unknown) => {
      if (failure instanceof ApiError) return [];
      throw failure;
    });
    found.push(...names.map((name) => api.below(name.replace(/\/$/, ""))));
  }
  return found.slice(0, MAX_NAMESPACES);
}

const shown = (api: Api, name: string): string => [api.namespace, name].filter((part) => part !== "").join("/");

const destinations = (namespaces: readonly Api[]): Promise<Finding[]> =>
  guarded("destinations", "list and read on sys/sync/destinations", async () => {
    const { ok, problem } = findings("destinations");
    const lists = await mapLimit(namespaces, MAX_CONCURRENT, async (api) => {
      const { key_info } = (await api.fields("sys/sync/destinations", { list: "true" })) ?? {};
      const types = Object.entries((key_info ?? {}) as Record<string, string[]>);
      return types.flatMap(([type, names]) => names.map((name) => [api, `${type}${name}`] as const));
    });
    const results = await mapLimit(lists.flat(), MAX_CONCURRENT, async ([api, at]) => {
      const fields = await api.fields(`sys/sync/destinations/${encoded(at)}`);
      const name = shown(api, at);
      const { circuit_breaker: breaker, purge_error } = fields ?? {};
      return [
        ...(breaker
          ? [
              problem(
                `${name}: the breaker is open after ${breaker.failures} failures; next attempt ${breaker.next_attempt_at}`,
                "POST …/verify tells the cause; pushes resume by themselves: docs/guides/sync.md",
              ),
            ]
          : []),
        ...(purge_error
          ? [problem(`${name}: the purge has failed`, "read purge_error, repair, and repeat the purge")]
          : []),
      ];
    });
    const bad = results.flat();
    return bad.length > 0 ? bad : [ok(`${results.length} without an open breaker`)];
  });

const EXPIRY_DAYS = 14;

const rotation = (namespaces: readonly Api[]): Promise<Finding[]> =>
  guarded("root rotation", "read on sys/mounts and on the configuration of the engines", async () => {
    const { ok, problem, warning } = findings("root rotation");
    const engines = await mapLimit(namespaces, MAX_CONCURRENT, async (api) => {
      const mounts = Object.entries((await api.fields("sys/mounts")) ?? {});
      return mounts
        .filter(([, { type }]) => type === "azure" || type === "cloud-b")
        .map(([path]) => [api, path] as const);
    });
    const results = await mapLimit(engines.flat(), MAX_CONCURRENT, async ([api, path]) => {
      const fields = (await api.fields(`${encoded(path)}config`)) ?? {};
      const name = shown(api, path);
      const days = (Date.parse(fields["root_password_expiration_date"] ?? "") - Date.now()) / DAY_MS;
      const due = Date.parse(fields["next_rotation_date"] ?? "");
      const action = `POST /v1/${name}rotate-root: docs/guides/credentials.md`;
      if (days < 0) return [problem(`${name}: the root secret has expired`, action)];
      if (due < Date.now() - DAY_MS)
        return [problem(`${name}: the rotation is due since ${fields["next_rotation_date"]}`, action)];
      if (days < EXPIRY_DAYS && !(due < Date.now() + days * DAY_MS))
        return [warning(`${name}: the root secret expires in ${Math.floor(days)} days`, action)];
      return [];
    });
    const bad = results.flat();
    return bad.length > 0 ? bad : [ok(`${results.length} engines, none is due`)];
  });

/** All checks behind a token. */
export async function tokenChecks(api: Api): Promise<Finding[]> {
  const namespaces = await namespacesOf(api);
  const found = await Promise.all([
    ...[version, token, metrics, audit, snapshots, agents].map((check) => check(api)),
    destinations(namespaces),
    rotation(namespaces),
  ]);
  return found.flat();
}
