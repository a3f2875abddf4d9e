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
const skipped = (kind: string, objects: number): Series =>
  labelled("sallyport_scrape_skipped_objects", objects, { class: kind });
const object = (kind: string, name: string): Series =>
  labelled("sallyport_object_size_bytes", 1, { class: kind, object: name });

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

const snapshots = (ageS: number) => [
  labelled("sallyport_snapshot_read_age_seconds", ageS),
  labelled("sallyport_snapshot_late", 1),
];

const NO_LIMITS: Limits = { withinSeconds: null, percent: null };

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
  [
    "backup-missing",
    [...snapshots(3_600), labelled("sallyport_snapshots_stored", 2)],
    { snapshot: "the last snapshot is 1 h old" },
  ],
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

/** An environment with these objects, whatever their names. */
const envOf = (objects: Record<string, object>): Env =>
  Object.fromEntries(Object.entries(objects).map(([name, found]) => [name, { getByName: () => found }])) as never;

/** An environment with engines of one type, of which those of these names are asked. */
const withEngines = (total: number, ...names: string[]): Env =>
  envOf({ ACCESS_CONTROL: { everyMount: async () => ({ aws: { total, some: names.map((name) => ({ name })) } }) } });

it.each(complete)("%s is seen in the metrics: row %#", async (condition, series, subjects, limits) => {
  const seen = (more: readonly Series[]) =>
    conditions[condition].seen({ env: withEngines(0), series: [...series, ...more] }, limits);
  const sources = SOURCES[condition] ?? [];
  const all = await seen(sources.map((kind) => answered(kind)));
  expect([Object.fromEntries(all.subjects), all.isWhole]).toEqual([subjects, true]);
  for (const silent of sources) {
    const some = await seen(sources.map((kind) => answered(kind, kind === silent ? 1 : 0)));
    expect([silent, some.isWhole]).toEqual([silent, false]);
    const cut = await seen([...sources.map((kind) => answered(kind)), skipped(silent, 1)]);
    expect([silent, cut.isWhole]).toEqual([silent, false]);
  }
});

it.each([
  ["sync-failing", "SyncDestination"],
  ["destination-key-ends", "SyncDestination"],
  ["lease-irrevocable", "CredentialEngine"],
  ["root-secret-ends", "CredentialEngine"],
  ["delivery-failing", "EventSubscription"],
] as const)("%s looks at the objects that have answered, although others were skipped", async (condition, kind) => {
  const [a, b] = ["ns/in-mem/a", "ns/in-mem/b"];
  const series = [answered(kind), answered("AccessControl"), skipped(kind, 5), object(kind, a), object("Other", b)];
  const { isWhole, lookedAt } = await conditions[condition].seen({ env: withEngines(9, a), series }, NO_LIMITS);
  expect([isWhole, lookedAt?.(a), lookedAt?.(b)]).toEqual([false, true, false]);
});

it.each(["lease-irrevocable", "root-secret-ends"] as const)(
  "%s knows that an engine is gone before the last one of its type that was asked, if all have answered",
  async (condition) => {
    const kind = "CredentialEngine";
    for (const errors of [0, 1]) {
      const series = [answered(kind, errors), answered("AccessControl"), skipped(kind, 5), object(kind, "c/")];
      const { lookedAt } = await conditions[condition].seen({ env: withEngines(9, "a/", "c/"), series }, NO_LIMITS);
      const looked = ["a/", "b/", "c/", "d/"].map((subject) => lookedAt?.(subject));
      expect([errors, looked]).toEqual([
        errors,
        errors === 0 ? [false, true, true, false] : [false, false, true, false],
      ]);
    }
  },
);

it("sync-failing knows that a destination is gone before the last one that was asked, if all have answered", async () => {
  const kind = "SyncDestination";
  const names = ["in-mem/b", "a-b/in-mem/c", "a/z-type/d"];
  for (const errors of [0, 1]) {
    const series = [answered(kind, errors), skipped(kind, 5), ...names.map((name) => object(kind, name))];
    const { lookedAt } = await conditions["sync-failing"].seen({ env: {} as Env, series }, NO_LIMITS);
    const looked = ["in-mem/a", "a/in-mem/x", "a/z-type/e"].map((subject) => lookedAt?.(subject));
    expect([errors, looked]).toEqual([errors, errors === 0 ? [true, true, false] : [false, false, false]]);
  }
});

it("backup-missing does not know of late snapshots while the bucket cannot be listed", async () => {
  const series = [answered("AccessControl"), ...snapshots(3_600)];
  const seen = await conditions["backup-missing"].seen({ env: {} as Env, series }, NO_LIMITS);
  expect([seen.subjects.size, seen.isWhole]).toEqual([0, false]);
});

it("node-down is not seen whole when there are more nodes than it reads, and knows those that it read", async () => {
  const row = { id: "n0000000-1", body: JSON.stringify({ Status: "down", Name: "n" }) };
  const up = { id: "n0000000-2", body: JSON.stringify({ Status: "ready", Name: "up" }) };
  const series = [answered("ClusterRegistry"), labelled("sallyport_nodes", 1, { status: "down" })];
  for (const [pages, isWhole] of [
    [2, true],
    [30, false],
  ] as const) {
    let read = 0;
    const nodes = async () => ({ rows: [row, up], next: ++read < pages ? "more" : null });
    const seen = await conditions["node-down"].seen({ env: envOf({ CLUSTER_REGISTRY: { nodes } }), series }, NO_LIMITS);
    expect([pages, seen.subjects.size, seen.isWhole]).toEqual([pages, 1, isWhole]);
    expect(["up (n0000000)", "n (n0000000)"].map((subject) => seen.lookedAt?.(subject))).toEqual([true, false]);
  }
});

it.each([
  ["all mounts are read to the end", 2, true, true, [true, true, true, false]],
  ["a mount has more secrets", 2, false, false, [true, false, true, false]],
  ["there are more mounts", 3, true, false, [true, true, true, false]],
])("secret-expires when %s", async (_when, total, isLast, isWhole, looked) => {
  const some = ["a", "b"].map((name) => ({ name: `${name}/`, uuid: name }));
  const everyMount = async () => ({ kv: { total, some } });
  const expiring = async () => ({ secrets: [{ path: "s", at: 0 }], isWhole: isLast });
  const whole = { expiring: async () => ({ secrets: [], isWhole: true }) };
  const KV_STORE = { getByName: (uuid: string) => (uuid === "a" ? whole : { expiring }) };
  const env = { ...envOf({ ACCESS_CONTROL: { everyMount } }), KV_STORE } as never;
  const seen = await conditions["secret-expires"].seen({ env, series: [] }, NO_LIMITS);
  expect([[...seen.subjects.keys()], seen.isWhole]).toEqual([["b/s"], isWhole]);
  expect(["a/x", "b/x", "aa/x", "c/x"].map((subject) => seen.lookedAt?.(subject))).toEqual(looked);
});
