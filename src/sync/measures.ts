import type { Migration } from "../platform/durable/migrations.ts";
import { WORK } from "../platform/durable/work-queue.ts";
import { column, countedTable, rowsCounted } from "../platform/observability/metrics/object-counters.ts";

/** Counters over the rows of a destination; the caller prepends the label `destination`. */
export const destinationMeasures: Migration[] = [
  countedTable,
  rowsCounted("sallyport_sync_associations", {
    table: "associations",
    columns: ["status"],
    labels: [column("status")],
  }),
  // Most associations are PENDING for a moment only, so a scrape counts them by rows of work.
  `DROP TRIGGER counted_sync_associations_associations_added;
      DROP TRIGGER counted_sync_associations_associations_gone;
      DROP TRIGGER counted_sync_associations_associations_was;
      DROP TRIGGER counted_sync_associations_associations_is;
      DELETE FROM counted WHERE metric = 'sallyport_sync_associations'`,
  rowsCounted("sallyport_sync_associations", {
    table: "associations",
    columns: ["status"],
    labels: [column("status")],
    when: (row) => `${row}.status <> 'PENDING'`,
  }),
];

const MAX_PENDING = 10_000;

/** The number of pending associations, counted up to a bound. Each has a row of work. */
export const pendingAssociations = (sql: SqlStorage): number =>
  sql
    .exec<{ n: number }>(
      `SELECT count(*) AS n FROM (SELECT 1 FROM ${WORK.rows} JOIN associations USING (id) WHERE status = 'PENDING' LIMIT ?)`,
      MAX_PENDING,
    )
    .one().n;
