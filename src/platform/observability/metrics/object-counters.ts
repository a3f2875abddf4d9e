import type { Migration } from "../../durable/migrations.ts";
import { type MetricName, OTHER } from "./catalogue.ts";
import { type Series, series } from "./series.ts";

/**
 * Counters of an object, in rows that change in the same transaction as the counted rows, mostly by triggers. They are
 * exact, survive restarts, and cost no scan to read.
 */

/** Part of the schema of an object with counters; `rowsCounted` and `completionsCounted` follow it. */
export const countedTable: Migration = `CREATE TABLE counted (
    metric TEXT NOT NULL, labels TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (metric, labels)) STRICT, WITHOUT ROWID`;

/** An SQL expression over a row with the given alias. */
type Of = (row: string) => string;

/** The value of a column. */
export const column =
  (name: string): Of =>
  (row) =>
    `${row}.${name}`;
export const constant =
  (text: string): Of =>
  () =>
    `'${text}'`;

interface Rows {
  readonly table: string;
  /** The columns that determine label and condition. */
  readonly columns: readonly string[];
  /** One expression per label. */
  readonly labels: Of[];
  /** Condition for counted rows; default all. */
  readonly when?: Of;
}

const jsonOf = (labels: Of[], row: string): string => `json_array(${labels.map((label) => label(row)).join(", ")})`;

const more = (metric: MetricName, labels: string): string =>
  `INSERT INTO counted VALUES ('${metric}', ${labels}, 1) ON CONFLICT (metric, labels) DO UPDATE SET n = n + 1;`;

const less = (metric: MetricName, labels: string): string =>
  `UPDATE counted SET n = n - 1 WHERE metric = '${metric}' AND labels = ${labels};
   DELETE FROM counted WHERE metric = '${metric}' AND labels = ${labels} AND n <= 0;`;

/** Counts the rows of a table by some of their columns. */
export function rowsCounted(metric: MetricName, { table, columns, labels, when = () => "TRUE" }: Rows): Migration {
  const name = metric.replace("sallyport_", "counted_");
  const [was, is] = [jsonOf(labels, "OLD"), jsonOf(labels, "NEW")];
  return `INSERT INTO counted SELECT '${metric}', ${jsonOf(labels, table)} AS l, count(*) FROM ${table}
        WHERE ${when(table)} GROUP BY l ON CONFLICT (metric, labels) DO UPDATE SET n = n + excluded.n;
      CREATE TRIGGER ${name}_${table}_added AFTER INSERT ON ${table} WHEN ${when("NEW")} BEGIN ${more(metric, is)} END;
      CREATE TRIGGER ${name}_${table}_gone AFTER DELETE ON ${table} WHEN ${when("OLD")} BEGIN ${less(metric, was)} END;
      CREATE TRIGGER ${name}_${table}_was AFTER UPDATE OF ${columns.join(", ")} ON ${table}
        WHEN ${when("OLD")} AND NOT (${when("NEW")} AND ${was} IS ${is}) BEGIN ${less(metric, was)} END;
      CREATE TRIGGER ${name}_${table}_is AFTER UPDATE OF ${columns.join(", ")} ON ${table}
        WHEN ${when("NEW")} AND NOT (${when("OLD")} AND ${was} IS ${is}) BEGIN ${more(metric, is)} END`;
}

/** Counts transitions of a table's rows to a state where `when` holds. */
export function completionsCounted(
  metric: MetricName,
  { table, columns, labels, when = () => "TRUE" }: Rows,
): Migration {
  return `CREATE TRIGGER ${metric.replace("sallyport_", "counted_")}_${table} AFTER UPDATE OF ${columns.join(", ")} ON ${table}
        WHEN ${when("NEW")} AND NOT ${when("OLD")} BEGIN ${more(metric, jsonOf(labels, "NEW"))} END`;
}

/** Increments a counter that no table determines. Call inside the object's transaction. */
export function countInObject(sql: SqlStorage, metric: MetricName, ...labels: string[]): void {
  sql.exec(
    "INSERT INTO counted VALUES (?, ?, 1) ON CONFLICT (metric, labels) DO UPDATE SET n = n + 1",
    metric,
    JSON.stringify(labels),
  );
}

/** Maximum of series of one metric per object; the smallest ones are merged. */
const MAX_SERIES = 100;

/** The counts as series. */
export const countedSeries = (sql: SqlStorage): Series[] =>
  sql
    .exec<{ metric: MetricName; shown: string | null; labels: number; n: number }>(
      `SELECT metric, iif(place <= ?, labels, NULL) AS shown, max(json_array_length(labels)) AS labels, sum(n) AS n
       FROM (SELECT *, row_number() OVER (PARTITION BY metric ORDER BY n DESC) AS place FROM counted)
       GROUP BY metric, shown`,
      MAX_SERIES,
    )
    .toArray()
    .map(({ metric, shown, labels, n }) => {
      const values = shown === null ? new Array<string>(labels).fill(OTHER) : (JSON.parse(shown) as string[]);
      return series(metric, n, ...values);
    });
