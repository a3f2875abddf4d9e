import type { Migration } from "../platform/durable/migrations.ts";
import {
  column,
  completionsCounted,
  constant,
  countedTable,
  rowsCounted,
} from "../platform/observability/metrics/object-counters.ts";

/** Counters over the rows of nodes, agents and volumes. They run after the migrations of the tables that they count. */
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
