/**
 * The monthly bill of a deployment, line by line. Pure: `scripts/cost.ts` reads the command line and prints. Usage of an
 * operation is in `OPERATIONS`, which test/workers/rows.test.ts measures, so the bill follows the code.
 */

import { Settings } from "../src/platform/settings.ts";

/** Usage of one operation. A test measures everything but `requests`. */
interface Operation {
  /** Rows written: of tables, indexes and keys. Exact. */
  readonly rows: number;
  /** Further rows while a replica beside the caller's holds a lease of the owner: the change and its deletion. */
  readonly leased: number;
  /** Alarms, each a row and a call, at most: under load one serves all operations of two seconds. */
  readonly alarms: number;
  /** Calls of objects, at most. */
  readonly calls: number;
  /** Lines of the log, at most. */
  readonly lines: number;
  /** Requests to the Worker and messages of its queue. */
  readonly requests: number;
}

export const OPERATIONS = {
  "KV read": { rows: 0, leased: 0, alarms: 0, calls: 1, lines: 1, requests: 1 },
  "KV write": { rows: 3, leased: 2, alarms: 0, calls: 6, lines: 1, requests: 1 },
  "token created": { rows: 11, leased: 0, alarms: 2, calls: 5, lines: 1, requests: 1 },
  "orphan created": { rows: 10, leased: 0, alarms: 2, calls: 5, lines: 1, requests: 1 },
  "token revoked": { rows: 7, leased: 0, alarms: 2, calls: 6, lines: 1, requests: 1 },
  login: { rows: 11, leased: 0, alarms: 2, calls: 5, lines: 2, requests: 1 },
  "policy written": { rows: 8, leased: 0, alarms: 2, calls: 6, lines: 1, requests: 1 },
  "secret synced": { rows: 16, leased: 2, alarms: 3, calls: 20, lines: 6, requests: 2 },
  "lease issued": { rows: 34, leased: 0, alarms: 2, calls: 10, lines: 2, requests: 1 },
  "lease revoked": { rows: 27, leased: 0, alarms: 2, calls: 7, lines: 3, requests: 1 },
  "lease of a pool": { rows: 51, leased: 0, alarms: 5, calls: 22, lines: 3, requests: 2 },
  "static role rotated": { rows: 57, leased: 0, alarms: 2, calls: 12, lines: 3, requests: 1 },
  "host volume created": { rows: 46, leased: 0, alarms: 3, calls: 11, lines: 3, requests: 1 },
  "node checked": { rows: 0, leased: 0, alarms: 1, calls: 0, lines: 0, requests: 0 },
} as const satisfies Record<string, Operation>;

type OperationName = keyof typeof OPERATIONS;

/** Prices in dollars, each beyond what the paid plan includes a month. Read on 2026-11-25 at the pages of `SOURCES`. */
export const PRICES = {
  plan: 5,
  requests: { included: 10e6, price: 0.3, per: 1e6 },
  cpuMs: { included: 30e6, price: 0.02, per: 1e6 },
  calls: { included: 1e6, price: 0.15, per: 1e6 },
  gbSeconds: { included: 400_000, price: 12.5, per: 1e6 },
  rows: { included: 50e6, price: 1, per: 1e6 },
  logGb: { included: 50, price: 0.25, per: 1 },
  logGbMonths: { included: 12, price: 0.1, per: 1 },
  queueOperations: { included: 1e6, price: 0.4, per: 1e6 },
  bucketWrites: { included: 1e6, price: 4.5, per: 1e6 },
} as const;

export const SOURCES = [
  "https://developers.cloudflare.com/workers/platform/pricing/",
  "https://developers.cloudflare.com/durable-objects/platform/pricing/",
  "https://developers.cloudflare.com/observability/pricing/ (logs, from 2026-12-01)",
  "https://developers.cloudflare.com/queues/platform/pricing/",
  "https://developers.cloudflare.com/r2/pricing/",
] as const;

/** Size and load of a deployment. */
export interface Deployment {
  /** KV reads a second. */
  readonly reads: number;
  /** KV writes an hour of secrets that are not synced. */
  readonly writes: number;
  /** Logins an hour; each token ends after its time. */
  readonly logins: number;
  readonly nodes: number;
  /** Open event streams. */
  readonly streams: number;
  /** Open subscriptions to event notifications over WebSocket. */
  readonly subscribers: number;
  /** Synced secrets, each changed `changes` times a month. */
  readonly synced: number;
  readonly changes: number;
  readonly destinations: number;
  readonly mounts: number;
  /** Host volumes created a month. */
  readonly volumes: number;
  /** Leases of credentials a month. */
  readonly leases: number;
  /** Regions of the callers; each has a replica, and a relay if there are streams. */
  readonly places: number;
  /** Share of the requests whose lines are stored: `head_sampling_rate`. */
  readonly sampling: number;
  /** Whether a bucket, or a queue, for the audit log is bound. */
  readonly bucket: boolean;
  readonly queue: boolean;
  /** Whether no request waits for its line: `AUDIT_ON_FAILURE=open`. Else all do, as in an area that is closed. */
  readonly open: boolean;
}

export const DEFAULTS: Deployment = {
  reads: 1,
  writes: 60,
  logins: 60,
  nodes: 0,
  streams: 0,
  subscribers: 0,
  synced: 0,
  changes: 30,
  destinations: 10,
  mounts: 3,
  volumes: 0,
  leases: 0,
  places: 3,
  sampling: 0.1,
  bucket: false,
  queue: false,
  open: false,
};

/** Estimates that no test measures. */
export const ASSUMED = {
  /** CPU time of a request; `npm run bench` measures 0.2 to 0.6 ms for most. */
  cpuMs: 1,
  /** Time that a call keeps its object awake. */
  callMs: 3,
  /** Bytes of a stored line: about 550 of the line itself, the rest are attributes that the platform adds. */
  lineBytes: 1_500,
  /** Isolates of the Worker in a place: each hands in its counts every 15 s. */
  isolates: 10,
  /** Interval of scrapes; each calls every mount, destination and single object. */
  scrapeSeconds: 30,
  /** Times a day that a subscription is opened again. */
  reconnects: 4,
  /** Days that stored lines stay. */
  logDays: 7,
} as const;

/** Rows of the event of a changed secret, which there are while there is a subscription. */
export const EVENT_ROWS = 6;

/** Lines of the audit log by operation without a request, and calls of its collector by request in a closed area. */
export const AUDITED = { linesPerRequest: 2, callsPerRequest: 1 } as const;

const MONTH_SECONDS = 30 * 86_400;
const HOURS = MONTH_SECONDS / 3_600;
const { AUDIT_BATCH_MS: BATCH_MS } = Settings.parse({});
const OBJECT_GB = 0.128;
const SINGLE_OBJECTS = 6;
const BYTES_PER_GB = 1e9;

interface BillLine {
  readonly item: string;
  readonly amount: number;
  readonly unit: string;
  readonly dollars: number;
  /** The largest parts of the amount. */
  readonly parts: readonly (readonly [what: string, amount: number])[];
}

interface Meter {
  readonly included: number;
  readonly price: number;
  readonly per: number;
}

/** How often each operation happens in a month. */
function monthly(of: Deployment): Record<OperationName, number> {
  return {
    "KV read": of.reads * MONTH_SECONDS,
    "KV write": of.writes * HOURS,
    login: of.logins * HOURS,
    "token revoked": of.logins * HOURS,
    "secret synced": of.synced * of.changes,
    "lease issued": of.leases,
    "lease revoked": of.leases,
    "host volume created": of.volumes,
    "node checked": of.nodes * HOURS * 6,
    "token created": 0,
    "orphan created": 0,
    "policy written": 0,
    "lease of a pool": 0,
    "static role rotated": 0,
  };
}

/** Usage of the audit log in a month, with a sink and so many requests a second. */
function auditOf(of: Deployment, requests: number) {
  if (!of.bucket && !of.queue) return { calls: 0, collectors: 0, lines: 0, writes: 0 };
  const isolates = of.places * ASSUMED.isolates;
  const [inPlace, inIsolate] = [requests / of.places, requests / isolates];
  // The batch of an isolate closes a second after its first line; a collector's after four.
  const [handedOver, gathered] = [1 / (1 + 1 / inIsolate), 1 / (4 + 1 / inPlace)];
  // In a closed area lines of answers go along with the next request, or alone where there is none for a second.
  const calls = of.open
    ? isolates * handedOver
    : AUDITED.callsPerRequest * requests + isolates * inIsolate * Math.exp(-inIsolate);
  // An awaited line is written at once, or a spacing after the last write where there are more lines than that.
  const awaited = Math.min(inPlace, 1_000 / BATCH_MS) + inPlace * Math.exp(-5 * inPlace);
  return {
    calls: calls * MONTH_SECONDS,
    collectors: of.places * Math.min(1, inPlace),
    lines: AUDITED.linesPerRequest * requests * MONTH_SECONDS,
    writes: of.places * (of.open ? gathered : awaited) * MONTH_SECONDS,
  };
}

/** The bill of a month of 30 days. */
export function bill(of: Deployment): { lines: BillLine[]; total: number } {
  const times = Object.entries(monthly(of)) as [OperationName, number][];
  const parts = (per: (operation: Operation) => number, more: Record<string, number> = {}) =>
    [...times.map(([name, n]) => [name, n * per(OPERATIONS[name])] as const), ...Object.entries(more)]
      .filter(([, amount]) => amount > 0)
      .sort(([, a], [, b]) => b - a);
  const sum = (list: readonly (readonly [string, number])[]) => list.reduce((all, [, amount]) => all + amount, 0);
  const handIns = (of.places * ASSUMED.isolates * MONTH_SECONDS) / 15;
  const scrapes = MONTH_SECONDS / ASSUMED.scrapeSeconds;
  const replicas = of.reads > 0 ? of.places : 0;
  const owners = 1 + of.mounts;
  // A lease of two seconds is extended in its second half, by one question to its owner.
  const extensions = replicas * owners * Math.min(1, of.reads) * MONTH_SECONDS;

  const opened = of.subscribers * 30 * ASSUMED.reconnects;
  // The alarm of each relay with subscriptions, CHECK_MS in src/events/notifications/subscriptions.ts.
  const checks = of.subscribers > 0 ? (of.places * MONTH_SECONDS) / 60 : 0;
  const notified = of.subscribers > 0 ? of.writes * HOURS + of.synced * of.changes : 0;

  const audit = auditOf(of, sum(parts((one) => one.requests)) / MONTH_SECONDS);
  const requests = parts((one) => one.requests, {
    subscriptions: opened,
    scrapes,
    "snapshot schedule": MONTH_SECONDS / 300,
  });
  const calls = parts((one) => one.calls + one.alarms, {
    "leases of replicas": extensions,
    // The right, the start in the log, and the socket; the log and the relay of each event.
    subscriptions: 3 * opened,
    "events of secrets": (1 + of.places) * notified,
    "checks of relays": 2 * checks,
    "counts of isolates": handIns,
    "lines of the audit log": audit.calls,
    scrapes: scrapes * (SINGLE_OBJECTS + of.mounts + of.destinations + of.places),
    "resync of destinations": of.destinations * HOURS * 2,
  });
  const rows = parts((one) => one.rows + one.leased + one.alarms, {
    "rows of replicas": (replicas * owners * MONTH_SECONDS) / 300,
    "events of secrets": EVENT_ROWS * notified,
    "checks of relays": checks,
    "counters of metrics": 3 * (scrapes + MONTH_SECONDS / 60),
    "resync of destinations": of.destinations * HOURS * 3,
  });
  const relays = of.streams > 0 ? of.places : 0;
  const awake = (objects: number) => objects * MONTH_SECONDS * OBJECT_GB;
  const duration = [
    ["event log, kept awake by relays", awake(of.streams > 0 ? 1 : 0)],
    ["relays, kept awake by streams", awake(relays)],
    ["metrics, until counts are written", awake(1)],
    ["collectors of the audit log", awake(audit.collectors)],
    ["calls", ((sum(calls) * ASSUMED.callMs) / 1_000) * OBJECT_GB],
  ] as const;
  const lines = parts((one) => one.lines);
  const stored = (sum(lines) * of.sampling * ASSUMED.lineBytes) / BYTES_PER_GB;
  const queue = [
    ["wake-ups, written, read, deleted", of.synced * of.changes * 3],
    ["lines of the audit log", of.queue ? audit.lines * 3 : 0],
  ] as const;
  const line = (item: string, unit: string, meter: Meter, list: readonly (readonly [string, number])[]): BillLine => {
    const amount = sum(list);
    const dollars = (Math.max(0, amount - meter.included) / meter.per) * meter.price;
    return { item, amount, unit, dollars, parts: list.filter(([, part]) => part > 0).slice(0, 4) };
  };
  const found = [
    { item: "plan", amount: 1, unit: "", dollars: PRICES.plan, parts: [] },
    line("requests to the Worker", "requests", PRICES.requests, requests),
    line("CPU time of the Worker", "ms", PRICES.cpuMs, [["requests", sum(requests) * ASSUMED.cpuMs]]),
    line("calls of objects", "calls", PRICES.calls, calls),
    line("time of objects", "GB-s", PRICES.gbSeconds, duration),
    line("rows written", "rows", PRICES.rows, rows),
    line("log, ingested", "GB", PRICES.logGb, [["lines", stored]]),
    line("log, stored", "GB-month", PRICES.logGbMonths, [["lines", (stored * ASSUMED.logDays) / 30]]),
    line("queue", "operations", PRICES.queueOperations, queue),
    line("audit bucket", "writes", PRICES.bucketWrites, [["batches", of.bucket ? audit.writes : 0]]),
  ].filter(({ amount }) => amount > 0);
  return { lines: found, total: found.reduce((all, { dollars }) => all + dollars, 0) };
}
