import { expect, it } from "vitest";
import type { ConditionName, NotificationRule } from "../../contracts/notification-rule.ts";
import { METRICS, type MetricName } from "../../platform/observability/metrics/catalogue.ts";
import type { Series } from "../../platform/observability/metrics/series.ts";
import { conditions } from "./conditions.ts";

/** A series with its labels by name, in the order of the catalogue. */
function labelled(name: MetricName, value: number, labels: Readonly<Record<string, string>> = {}): Series {
  const known: readonly string[] = METRICS[name].labels;
  expect([...known].sort(), name).toEqual(Object.keys(labels).sort());
  return { name, value, labels: known.map((label) => labels[label] ?? "") };
}

const answered = (kind: string, errors = 0): Series => labelled("sallyport_scrape_errors", errors, { class: kind });

type Limits = Pick<NotificationRule, "withinSeconds" | "percent">;

type Row = readonly [
  condition: ConditionName,
  series: readonly Series[],
  subjects: Readonly<Record<string, string>>,
  limits?: Partial<Limits>,
];

const associations = (destination: string, status: string, count: number) =>
  labelled("sallyport_sync_associations", count, { destination, status });
const pending = (count: number, state: string) =>
  labelled("sallyport_sync_pending", count, { destination: "in-mem/a", state });
const queue = [labelled("sallyport_sync_queue_capacity", 1000), pending(700, "queued"), pending(200, "waiting")];
const full = { queue: "900 of 1000 operations wait" };
const leases = (mount: string, state: string, count: number) => labelled("sallyport_leases", count, { mount, state });
const agents = (state: string, count: number) => labelled("sallyport_agents", count, { state });
const letters = (subscription: string, count: number) =>
  labelled("sallyport_event_dead_letters", count, { subscription });
const DAY_S = 86_400;
const ends = (mount: string, days: number) => labelled("sallyport_engine_root_ends_seconds", days * DAY_S, { mount });

const rows: readonly Row[] = [
  [
    "sync-failing",
    [
      associations("in-mem/a", "SYNCED", 4),
      associations("in-mem/b", "CLIENT_SIDE_ERROR", 2),
      associations("in-mem/b", "UNKNOWN", 1),
      associations("in-mem/c", "INTERNAL_ERROR", 0),
      associations("in-mem/d", "PENDING", 3),
    ],
    { "in-mem/b": "2 CLIENT_SIDE_ERROR, 1 UNKNOWN" },
  ],
  ["sync-paused", [labelled("sallyport_sync_paused", 1)], { sync: "no destination gets changes" }],
  ["sync-paused", [labelled("sallyport_sync_paused", 0)], {}],
  ["sync-queue-full", queue, full],
  ["sync-queue-full", queue, {}, { percent: 91 }],
  ["sync-queue-full", queue, full, { percent: 90 }],
  ["sync-queue-full", [labelled("sallyport_sync_queue_capacity", 0)], {}],
  [
    "lease-irrevocable",
    [leases("azure/", "live", 9), leases("azure/", "irrevocable", 2), leases("aws/", "irrevocable", 0)],
    { "azure/": "2 leases" },
  ],
  [
    "root-secret-ends",
    [ends("azure/", 3.5), ends("old/", -1), ends("soon/", 0.5), ends("aws/", 15)],
    { "azure/": "ends in 3 d", "old/": "ended", "soon/": "ends within a day" },
  ],
  ["root-secret-ends", [ends("azure/", 3.5)], {}, { withinSeconds: 3 * DAY_S }],
  [
    "destination-key-ends",
    [labelled("sallyport_sync_credentials_end_seconds", DAY_S * 2, { destination: "in-mem/a" })],
    { "in-mem/a": "ends in 2 d" },
  ],
  ["agent-away", [agents("connected", 5), agents("away", 2)], { agents: "2 away" }],
  ["agent-away", [agents("connected", 5), agents("away", 0)], {}],
  ["backup-missing", [labelled("sallyport_snapshot_read_age_seconds", DAY_S)], {}],
  [
    "backup-missing",
    [labelled("sallyport_snapshot_read_age_seconds", DAY_S + 3600)],
    { snapshot: "the last snapshot is 25 h old" },
  ],
  ["backup-missing", [], { snapshot: "no snapshot was taken" }],
  ["delivery-failing", [letters("hook", 3), letters("other", 0)], { hook: "3 dead letters" }],
];

/** Objects whose answers each condition needs to know that a subject is gone. */
const SOURCES: Readonly<Record<string, readonly string[]>> = {
  "sync-failing": ["SyncDestination"],
  "sync-paused": ["SyncControl"],
  "sync-queue-full": ["SyncControl", "SyncDestination"],
  "lease-irrevocable": ["CredentialEngine", "AccessControl"],
  "root-secret-ends": ["CredentialEngine", "AccessControl"],
  "destination-key-ends": ["SyncDestination"],
  "agent-away": ["ClusterRegistry"],
  "backup-missing": ["AccessControl"],
  "delivery-failing": ["EventSubscription"],
};

const complete = rows.map(
  ([condition, series, subjects, limits = {}]) =>
    [condition, series, subjects, { withinSeconds: null, percent: null, ...limits }] as const,
);

it.each(complete)("%s is seen in the metrics: row %#", async (condition, series, subjects, limits) => {
  const seen = (more: readonly Series[]) =>
    conditions[condition].seen({ env: {} as Env, series: [...series, ...more] }, limits);
  const sources = SOURCES[condition] ?? [];
  const all = await seen(sources.map((kind) => answered(kind)));
  expect([Object.fromEntries(all.subjects), all.isWhole]).toEqual([subjects, true]);
  for (const silent of sources) {
    const some = await seen(sources.map((kind) => answered(kind, kind === silent ? 1 : 0)));
    expect([silent, some.isWhole]).toEqual([silent, false]);
  }
});
