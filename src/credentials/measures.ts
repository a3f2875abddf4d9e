import type { Migration } from "../platform/durable/migrations.ts";
import { column, countedTable, rowsCounted } from "../platform/observability/metrics/object-counters.ts";

/** Counters over the rows of a mount; the caller prepends the label `mount`. */
export const engineMeasures: Migration[] = [
  countedTable,
  rowsCounted("sallyport_leases", { table: "leases", columns: ["state"], labels: [column("state")] }),
  rowsCounted("sallyport_engine_jobs", { table: "jobs", columns: ["kind"], labels: [column("kind")] }),
];
