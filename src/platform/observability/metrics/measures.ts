import type { Migration } from "../../durable/migrations.ts";
import { completionsCounted, countedTable, rowsCounted } from "./object-counters.ts";

/* Counters over the rows of each object type. These migrations run after those of the tables they count. */

const column = (name: string) => (row: string) => `${row}.${name}`;
const constant = (text: string) => () => `'${text}'`;

export const clusterMeasures: Migration[] = [
  countedTable,
  rowsCounted("sallyport_nodes", { table: "nodes", columns: ["status"], labels: [column("status")] }),
  rowsCounted("sallyport_agents", {
    table: "agents",
    columns: ["connected_since"],
    labels: [(row) => `iif(${row}.connected_since IS NULL, 'away', 'connected')`],
  }),
  rowsCounted("sallyport_csi_plugin_instances", {
    table: "csi_plugin_instances",
    columns: ["plugin_id", "role", "healthy"],
    labels: [column("plugin_id"), column("role"), (row) => `iif(${row}.healthy, 'healthy', 'unhealthy')`],
  }),
  rowsCounted("sallyport_host_volumes", {
    table: "host_volumes",
    columns: ["state", "made"],
    labels: [column("state")],
    when: (row) => `${row}.made = 1`,
  }),
  rowsCounted("sallyport_csi_volumes", {
    table: "csi_volumes",
    columns: ["plugin_id"],
    labels: [column("plugin_id")],
  }),
  rowsCounted("sallyport_volume_claims", { table: "volume_claims", columns: ["id"], labels: [constant("made")] }),
  // A volume without a name gets it from its job, which decides whether it needs a claim.
  rowsCounted("sallyport_volume_claims", {
    table: "claim_asks",
    columns: ["volume_name"],
    labels: [constant("asked")],
    when: (row) => `${row}.volume_name <> ''`,
  }),
  ...["volume_operations", "csi_operations"].flatMap((table) => {
    const kind = constant(table === "csi_operations" ? "csi" : "host");
    const outcome = (row: string) => `ifnull(json_extract(${row}.refusal, '$.reason'), 'ok')`;
    const open = (row: string) => `${row}.state IN ('queued', 'running')`;
    return [
      rowsCounted("sallyport_volume_operations", {
        table,
        columns: ["state"],
        labels: [kind, column("method"), column("state")],
        when: open,
      }),
      completionsCounted("sallyport_volume_operations_ended_total", {
        table,
        columns: ["state"],
        labels: [kind, column("method"), outcome],
        when: (row) => `${row}.state IN ('done', 'failed')`,
      }),
    ];
  }),
  rowsCounted("sallyport_csi_claims", {
    table: "csi_claims",
    columns: ["state", "refusal"],
    labels: [column("state"), (row) => `iif(${row}.refusal IS NULL, 'healthy', 'failing')`],
  }),
];

/** The caller prepends the label `mount`. */
export const engineMeasures: Migration[] = [
  countedTable,
  rowsCounted("sallyport_leases", { table: "leases", columns: ["state"], labels: [column("state")] }),
  rowsCounted("sallyport_engine_jobs", { table: "jobs", columns: ["kind"], labels: [column("kind")] }),
];

/** The caller prepends the label `destination`. */
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
      `SELECT count(*) AS n FROM (SELECT 1 FROM work JOIN associations USING (id) WHERE status = 'PENDING' LIMIT ?)`,
      MAX_PENDING,
    )
    .one().n;
