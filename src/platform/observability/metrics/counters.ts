import type { Migration } from "../../durable/migrations.ts";
import { BUCKETS, definitionOf, FROM_ZERO, isMetric, type MetricName } from "./catalogue.ts";
import { type Key, keyOf, otherOf, partsOf } from "./isolate-counters.ts";
import type { Series } from "./series.ts";

export const counterMigrations: Migration[] = [
  {
    because: "what isolates have counted, by metric, labels and part; it outlives them",
    sql: "CREATE TABLE counters (series TEXT PRIMARY KEY, value REAL NOT NULL) STRICT, WITHOUT ROWID",
  },
  {
    because: "the last batch of each isolate, so that one that is handed in twice counts once",
    sql: "CREATE TABLE reporters (id TEXT PRIMARY KEY, batch INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID",
  },
  { because: "forget them in order", sql: "CREATE INDEX reporters_by_seen ON reporters (seen)" },
];

/** An isolate retries a batch within seconds. */
const REPORTER_TTL_MS = 3_600_000;
/** Rows of one metric; further ones are counted as "other". */
const MOST_ROWS = 5_000;

/** Sums of the counts of all isolates. Methods that write are called inside the object's transaction. */
export class Counters {
  readonly #sql: SqlStorage;
  #values: Map<Key, number> | undefined;
  readonly #rows = new Map<MetricName, number>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Adds the counts of an isolate since its last batch. Idempotent by reporter and batch. */
  add(reporter: string, batch: number, increments: readonly (readonly [Key, number])[], now: number): void {
    const [row] = this.#sql.exec<{ batch: number }>("SELECT batch FROM reporters WHERE id = ?", reporter).toArray();
    if (row && row.batch >= batch) return;
    this.#sql.exec(
      `INSERT INTO reporters VALUES (?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, seen = excluded.seen`,
      ...[reporter, batch, now],
    );
    this.#sql.exec(
      "DELETE FROM reporters WHERE id IN (SELECT id FROM reporters WHERE seen < ? ORDER BY seen LIMIT 100)",
      now - REPORTER_TTL_MS,
    );
    for (const [key, by] of increments) this.#increase(key, by);
  }

  /** Invalidates cached rows after a failed transaction. */
  forget(): void {
    this.#values = undefined;
    this.#rows.clear();
  }

  /** All counts as series; without metrics unknown to this version. */
  all(): Series[] {
    const distributions = new Map<string, { labels: string[]; name: MetricName; buckets: number[]; sum: number }>();
    const counted = this.#all();
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
    const values = this.#all();
    const { name, part } = partsOf(key);
    if (!isMetric(name)) return;
    const rows = this.#rows.get(name) ?? 0;
    const isNew = !values.has(key);
    const other = otherOf(name, part);
    if (isNew && rows >= MOST_ROWS && key !== other) {
      this.#increase(other, by);
      return;
    }
    if (isNew) this.#rows.set(name, rows + 1);
    values.set(key, (values.get(key) ?? 0) + by);
    this.#sql.exec(
      "INSERT INTO counters VALUES (?, ?) ON CONFLICT (series) DO UPDATE SET value = value + excluded.value",
      key,
      by,
    );
  }

  #all(): Map<Key, number> {
    if (this.#values) return this.#values;
    this.#values = new Map();
    for (const { series, value } of this.#sql.exec<{ series: string; value: number }>("SELECT * FROM counters")) {
      this.#values.set(series, value);
      const { name } = partsOf(series);
      if (isMetric(name)) this.#rows.set(name, (this.#rows.get(name) ?? 0) + 1);
    }
    return this.#values;
  }
}
