import type { Migration } from "../../durable/migrations.ts";
import { BUCKETS, definitionOf, FROM_ZERO, isMetric, type MetricName } from "./catalogue.ts";
import { type Key, keyOf, otherOf, partsOf } from "./isolate-counters.ts";
import type { Series } from "./series.ts";

export const counterMigrations: Migration[] = [
  // Counts of isolates by metric, labels and part; they outlive the isolates.
  "CREATE TABLE counters (series TEXT PRIMARY KEY, value REAL NOT NULL) STRICT, WITHOUT ROWID",
  // The last batch of each isolate, so that a repeated one counts once.
  "CREATE TABLE reporters (id TEXT PRIMARY KEY, batch INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID",
  // Delete the oldest.
  "CREATE INDEX reporters_by_seen ON reporters (seen)",
  // One row for each metric: its series and values as JSON. The row with the empty name has the last batch of each
  // isolate and its time.
  `CREATE TABLE counted_series (metric TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO counted_series
        SELECT substr(series, 1, instr(series, char(0)) - 1) AS metric, json_group_array(json_array(series, value))
        FROM counters GROUP BY metric;
      INSERT INTO counted_series SELECT '', json_group_array(json_array(id, json_array(batch, seen))) FROM reporters;
      DROP TABLE counters;
      DROP TABLE reporters`,
];

/** An isolate retries a batch within seconds. */
const REPORTER_TTL_MS = 3_600_000;
/** Series of one metric; further ones are counted as "other". */
const MAX_SERIES = 5_000;

/** The row of the isolates. */
const REPORTERS = "";
type Batch = readonly [batch: number, seen: number];

/**
 * Sums of the counts of all isolates, in memory. `write` stores what has changed since it was last called, one row a
 * metric.
 */
export class Counters {
  readonly #values: Map<string, Map<Key, number>>;
  readonly #reporters: Map<string, Batch>;
  readonly #unwritten = new Set<string>();

  constructor(private readonly sql: SqlStorage) {
    const rows = sql.exec<{ metric: string; body: string }>("SELECT metric, body FROM counted_series").toArray();
    const bodies = new Map(rows.map(({ metric, body }) => [metric, JSON.parse(body)]));
    this.#reporters = new Map(bodies.get(REPORTERS) as [string, Batch][] | undefined);
    bodies.delete(REPORTERS);
    this.#values = new Map([...bodies].map(([metric, series]) => [metric, new Map(series as [Key, number][])]));
  }

  /** Whether there are counts that are not stored. */
  get isUnwritten(): boolean {
    return this.#unwritten.size > 0;
  }

  /** Whether a metric was ever counted. */
  has(name: MetricName): boolean {
    return this.#values.has(name);
  }

  /** Adds the counts of an isolate since its last batch. Idempotent by reporter and batch. */
  add(reporter: string, batch: number, increments: readonly (readonly [Key, number])[], now: number): void {
    if ((this.#reporters.get(reporter)?.[0] ?? 0) >= batch) return;
    this.#reporters.set(reporter, [batch, now]);
    this.#unwritten.add(REPORTERS);
    for (const [key, by] of increments) this.#increase(key, by);
  }

  /** Stores all counts. Call inside a transaction, and `wrote` after it. */
  write(now: number): void {
    for (const [id, [, seen]] of this.#reporters) if (seen < now - REPORTER_TTL_MS) this.#reporters.delete(id);
    for (const metric of this.#unwritten) {
      this.sql.exec(
        "INSERT INTO counted_series VALUES (?, ?) ON CONFLICT (metric) DO UPDATE SET body = excluded.body",
        metric,
        JSON.stringify([...(metric === REPORTERS ? this.#reporters : (this.#values.get(metric) ?? []))]),
      );
    }
  }

  wrote(): void {
    this.#unwritten.clear();
  }

  /** All counts as series; without metrics unknown to this version. */
  all(): Series[] {
    const distributions = new Map<string, { labels: string[]; name: MetricName; buckets: number[]; sum: number }>();
    const counted = new Map([...this.#values.values()].flatMap((series) => [...series]));
    const found: Series[] = FROM_ZERO.filter(([name, label]) => !counted.has(keyOf(name, [label]))).map(
      ([name, label]) => ({ name, labels: [label], value: 0 }),
    );
    for (const [key, value] of counted) {
      const { name, labels, part } = partsOf(key);
      if (!isMetric(name) || labels.length !== definitionOf(name).labels.length) continue;
      if (part === "") {
        found.push({ name, labels, value });
        continue;
      }
      const id = JSON.stringify([name, labels]);
      const empty = () => ({ name, labels, buckets: new Array<number>(BUCKETS.length + 1).fill(0), sum: 0 });
      const distribution = distributions.get(id) ?? empty();
      distributions.set(id, distribution);
      if (part === "sum") distribution.sum = value;
      else distribution.buckets[Number(part)] = value;
    }
    const whole = [...distributions.values()].map(({ name, labels, ...value }) => ({ name, labels, value }));
    return [...found, ...whole];
  }

  #increase(key: Key, by: number): void {
    const { name, part } = partsOf(key);
    if (!isMetric(name)) return;
    const series = this.#values.get(name) ?? new Map<Key, number>();
    this.#values.set(name, series);
    const to = series.has(key) || series.size < MAX_SERIES ? key : otherOf(name, part);
    const before = series.get(to) ?? 0;
    // A gauge is a time here.
    series.set(to, definitionOf(name).type === "gauge" ? Math.max(before, by) : before + by);
    this.#unwritten.add(name);
  }
}
