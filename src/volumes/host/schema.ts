import type { Migration } from "../../platform/durable/migrations.ts";

export const hostVolumeMigrations: Migration[] = [
  // Host volumes. `made` = 0 while the creating operation runs: the row reserves the name on the node, and no
  // read returns it.
  `CREATE TABLE host_volumes (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, node_id TEXT NOT NULL, node_pool TEXT NOT NULL,
      plugin_id TEXT NOT NULL, state TEXT NOT NULL, made INTEGER NOT NULL DEFAULT 0, gen INTEGER NOT NULL,
      wanted TEXT NOT NULL, capacity_bytes INTEGER NOT NULL, host_path TEXT NOT NULL,
      create_time INTEGER NOT NULL, modify_time INTEGER NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  // List in order.
  "CREATE UNIQUE INDEX host_volumes_in_order ON host_volumes (namespace, id)",
  // Volumes on a node.
  "CREATE INDEX host_volumes_by_node ON host_volumes (node_id, namespace, id)",
  // Volumes of a plugin.
  "CREATE INDEX host_volumes_by_plugin ON host_volumes (plugin_id, namespace, id)",
  // One volume of a name on a node; a volume that is being renamed holds both names.
  `CREATE TABLE host_volume_names (
      node_id TEXT NOT NULL, name TEXT NOT NULL, volume_id TEXT NOT NULL, PRIMARY KEY (node_id, name)) STRICT, WITHOUT ROWID`,
  // Release names.
  "CREATE INDEX host_volume_names_of ON host_volume_names (volume_id)",
  // Running and recent operations on a volume; `due` is when a finished one is deleted.
  `CREATE TABLE volume_operations (
      id TEXT PRIMARY KEY, volume_id TEXT NOT NULL, node_id TEXT NOT NULL, method TEXT NOT NULL, gen INTEGER NOT NULL,
      state TEXT NOT NULL, request TEXT NOT NULL, params TEXT NOT NULL, change TEXT, refusal TEXT, idx INTEGER,
      due INTEGER) STRICT`,
  // One operation of a volume at a time.
  "CREATE UNIQUE INDEX volume_operations_running ON volume_operations (volume_id) WHERE state = 'running'",
  // A repeated request finds the operation of the first.
  "CREATE INDEX volume_operations_by_request ON volume_operations (request)",
  // Unfinished operations of a node.
  "CREATE INDEX volume_operations_by_node ON volume_operations (node_id, id) WHERE state = 'running'",
  // Find the next alarm without a scan.
  "CREATE INDEX volume_operations_by_due ON volume_operations (due) WHERE due IS NOT NULL",
  // The last report of a node on an operation with an unknown outcome: it may have been performed.
  "ALTER TABLE volume_operations ADD COLUMN doubt TEXT",
];
