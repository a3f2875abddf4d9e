import type { Migration } from "../../platform/durable/migrations.ts";

export const hostVolumeMigrations: Migration[] = [
  {
    because:
      "a host volume; made = 0 while its first operation runs: then it holds its name on the node, and nobody sees it yet",
    sql: `CREATE TABLE host_volumes (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, node_id TEXT NOT NULL, node_pool TEXT NOT NULL,
      plugin_id TEXT NOT NULL, state TEXT NOT NULL, made INTEGER NOT NULL DEFAULT 0, gen INTEGER NOT NULL,
      wanted TEXT NOT NULL, capacity_bytes INTEGER NOT NULL, host_path TEXT NOT NULL,
      create_time INTEGER NOT NULL, modify_time INTEGER NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  { because: "list in order", sql: "CREATE UNIQUE INDEX host_volumes_in_order ON host_volumes (namespace, id)" },
  { because: "what is on a node", sql: "CREATE INDEX host_volumes_by_node ON host_volumes (node_id, namespace, id)" },
  {
    because: "what a plugin has made",
    sql: "CREATE INDEX host_volumes_by_plugin ON host_volumes (plugin_id, namespace, id)",
  },
  {
    because: "one volume of a name to a node; a volume that is being renamed holds both names",
    sql: `CREATE TABLE host_volume_names (
      node_id TEXT NOT NULL, name TEXT NOT NULL, volume_id TEXT NOT NULL, PRIMARY KEY (node_id, name)) STRICT, WITHOUT ROWID`,
  },
  { because: "give names back", sql: "CREATE INDEX host_volume_names_of ON host_volume_names (volume_id)" },
  {
    because: "what a node is doing, or has lately done, to a volume; due: when one that has ended is forgotten",
    sql: `CREATE TABLE volume_operations (
      id TEXT PRIMARY KEY, volume_id TEXT NOT NULL, node_id TEXT NOT NULL, method TEXT NOT NULL, gen INTEGER NOT NULL,
      state TEXT NOT NULL, request TEXT NOT NULL, params TEXT NOT NULL, change TEXT, refusal TEXT, idx INTEGER,
      due INTEGER) STRICT`,
  },
  {
    because: "one operation of a volume at a time",
    sql: "CREATE UNIQUE INDEX volume_operations_running ON volume_operations (volume_id) WHERE state = 'running'",
  },
  {
    because: "a request that comes again finds what it began",
    sql: "CREATE INDEX volume_operations_by_request ON volume_operations (request)",
  },
  {
    because: "what a node owes",
    sql: "CREATE INDEX volume_operations_by_node ON volume_operations (node_id, id) WHERE state = 'running'",
  },
  {
    because: "find the next alarm without a scan",
    sql: "CREATE INDEX volume_operations_by_due ON volume_operations (due) WHERE due IS NOT NULL",
  },
  {
    because: "what the node last said of an operation when it did not know what had come of it: it may have done it",
    sql: "ALTER TABLE volume_operations ADD COLUMN doubt TEXT",
  },
];
