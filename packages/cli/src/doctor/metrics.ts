import { type Finding, few, findings } from "./finding.ts";

/** Findings in one scrape (docs/operate/metrics.md). */

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export type Metrics = ReadonlyMap<string, readonly Sample[]>;

/** Reads the Prometheus text format 0.0.4. */
export function readMetrics(text: string): Metrics {
  const found = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", text = ""]) => [key, text]);
    found.set(name, [...(found.get(name) ?? []), { labels: Object.fromEntries(pairs), value: Number(value) }]);
  }
  return found;
}

const OUTBOX_SECONDS = 300;
const ALARM_SECONDS = 120;
const QUEUE_SHARE = 0.9;
const MAX_FAILURES = 0.02;
/** The trigger of wrangler.toml fires every five minutes. */
const CRON_MINUTES = 15;
/** A new trigger takes up to 15 minutes to reach the platform, and two intervals more are allowed. */
const FIRST_CRON_MINUTES = 25;
const REQUESTS = 100;

/** @param now ms since 1970 */
export function metricFindings(metrics: Metrics, now: number): Finding[] {
  const all = (name: string, where: (sample: Sample) => boolean = () => true) =>
    (metrics.get(`sallyport_${name}`) ?? []).filter(where);
  const sum = (name: string, where?: (sample: Sample) => boolean) =>
    all(name, where).reduce((total, { value }) => total + value, 0);
  return [
    ...queue(sum),
    ...pushes(all),
    ...delivery(all),
    ...audit(sum),
    ...plugins(all),
    ...requests(sum),
    ...leases(all),
    ...cron(all, now),
  ];
}

type All = (name: string, where?: (sample: Sample) => boolean) => Sample[];
type Sum = (name: string, where?: (sample: Sample) => boolean) => number;

function queue(sum: Sum): Finding[] {
  const { ok, warning, problem } = findings("sync queue");
  const [granted, capacity] = [sum("sync_queue_granted"), sum("sync_queue_capacity")];
  if (sum("sync_paused") > 0)
    return [warning("syncing is paused", "PATCH sys/sync/config with disabled: false resumes it")];
  if (capacity > 0 && granted >= capacity * QUEUE_SHARE)
    return [problem(`${granted} of ${capacity} places are reserved`, "raise queue_capacity in sys/sync/config")];
  return [ok(`${granted} of ${capacity} places are reserved`)];
}

function pushes(all: All): Finding[] {
  const { ok, problem } = findings("sync");
  const failing = all(
    "sync_associations",
    ({ labels, value }) => value > 0 && /ERROR|UNKNOWN/.test(labels["status"] ?? ""),
  );
  if (failing.length === 0) return [ok("no association fails")];
  const names = failing.map(({ labels, value }) => `${labels["destination"]} ${value} ${labels["status"]}`);
  return [problem(few(names), "read the destination's associations: error_code and error_message name the cause")];
}

function delivery(all: All): Finding[] {
  const { ok, problem, warning } = findings("delivery");
  const nameOf = ({ labels, value }: Sample) => `${labels["class"]} ${labels["object"] ?? ""} ${value} s`;
  const late = all("outbox_oldest_age_seconds", ({ value }) => value > OUTBOX_SECONDS);
  const slow = all("alarm_lag_seconds", ({ value }) => value > ALARM_SECONDS);
  const silent = all("scrape_errors", ({ value }) => value > 0);
  const found = [
    ...(late.length > 0
      ? [problem(`outboxes are late: ${few(late.map(nameOf))}`, "see the service's log for the receiver")]
      : []),
    ...(slow.length > 0
      ? [warning(`due work is late: ${few(slow.map(nameOf))}`, "see the service's log for the object")]
      : []),
    ...(silent.length > 0
      ? [
          warning(
            `no answer in 2 s: ${few(silent.map(({ labels }) => labels["class"] ?? ""))}`,
            "see the service's log",
          ),
        ]
      : []),
  ];
  return found.length > 0 ? found : [ok("outboxes and alarms are in time")];
}

function audit(sum: Sum): Finding[] {
  const { ok, problem } = findings("audit lines");
  const lost = sum("audit_lines_lost_total");
  if (lost === 0) return [ok("none is lost")];
  return [
    problem(
      `${lost} lines did not reach a sink`,
      "the service's log has audit-sink-failed with the cause: docs/operate/audit.md",
    ),
  ];
}

function plugins(all: All): Finding[] {
  const { ok, problem } = findings("CSI plugins");
  const bad = all("csi_plugin_instances", ({ labels, value }) => value > 0 && labels["health"] !== "healthy");
  const failing = all("csi_claims", ({ labels, value }) => value > 0 && labels["health"] === "failing");
  const found = [
    ...bad.map(({ labels, value }) => `${labels["plugin"]}: ${value} ${labels["role"]} ${labels["health"]}`),
    ...failing.map(({ labels, value }) => `${value} claims fail in ${labels["state"]}`),
  ];
  if (found.length === 0) return [ok("all instances are healthy")];
  return [problem(few(found), "GET /v1/plugin/csi/ID has HealthDescription: docs/guides/agent.md")];
}

function requests(sum: Sum): Finding[] {
  const { ok, warning } = findings("rate limits");
  const total = sum("http_requests_total");
  const limited = sum("http_requests_total", ({ labels }) => labels["status"] === "429");
  const failed = sum("http_requests_total", ({ labels }) => /^5/.test(labels["status"] ?? ""));
  const isMany = (count: number) => total >= REQUESTS && count > total * MAX_FAILURES;
  const found = [
    ...(isMany(limited)
      ? [warning(`${limited} of ${total} requests were refused with 429`, "docs/reference/limits.md")]
      : []),
    ...(isMany(failed)
      ? [findings("requests").warning(`${failed} of ${total} requests failed with 5xx`, "see the service's log")]
      : []),
  ];
  return found.length > 0 ? found : [ok(`${limited} of ${total} requests were refused with 429`)];
}

function leases(all: All): Finding[] {
  const { ok, problem } = findings("leases");
  const bad = all("leases", ({ labels, value }) => value > 0 && labels["state"] === "irrevocable");
  if (bad.length === 0) return [ok("none is irrevocable")];
  const names = bad.map(({ labels, value }) => `${labels["mount"]} ${value}`);
  return [
    problem(`irrevocable: ${few(names)}`, "GET sys/leases?type=irrevocable has the errors; then revoke with force"),
  ];
}

function cron(all: All, now: number): Finding[] {
  const { ok, problem, unknown } = findings("cron");
  const [run] = all("cron_last_run_timestamp_seconds");
  const action = "the trigger does not fire: npx wrangler triggers deploy, then npx wrangler tail";
  const minutesSince = ({ value }: Sample) => Math.max(0, now / 60_000 - value / 60);
  if (!run) {
    const [awaited] = all("cron_awaited_since_timestamp_seconds");
    if (!awaited) return [unknown("no run is recorded; a self-hosted service has no trigger")];
    const minutes = minutesSince(awaited);
    const text = `no run in ${minutes.toFixed(0)} minutes`;
    if (minutes > FIRST_CRON_MINUTES) return [problem(text, action)];
    return [unknown(`${text}; the first one is up to 20 minutes after the deployment`)];
  }
  const minutes = minutesSince(run);
  const text = `the last run was ${minutes.toFixed(0)} minutes ago`;
  return minutes <= CRON_MINUTES ? [ok(text)] : [problem(text, action)];
}

const DAY_S = 86_400;

/** Of a service without a bucket: whether something else, such as `BACKUP_DIR`, takes snapshots. */
export function lastSnapshot(metrics: Metrics): Finding[] {
  const { ok, warning } = findings("snapshots");
  const action =
    "schedule `sallyport snapshot save`, set BACKUP_DIR or BACKUP_S3_BUCKET (self-hosted), or on Cloudflare bind SNAPSHOT_BUCKET";
  const [age] = metrics.get("sallyport_snapshot_read_age_seconds") ?? [];
  if (!age) return [warning("none was ever taken, and no bucket is bound", action)];
  const text = `no bucket is bound; the last snapshot was taken ${(age.value / DAY_S).toFixed(1)} days ago`;
  return age.value > 2 * DAY_S ? [warning(text, action)] : [ok(text)];
}
