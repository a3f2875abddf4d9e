import type { Migration } from "../../objects/migrations.ts";

/** Tables of CSI plugins. */
export const csiPluginMigrations: Migration[] = [
  {
    because: "a CSI plugin, from its first healthy instance until its last one is gone",
    sql: `CREATE TABLE csi_plugins (
      id TEXT PRIMARY KEY, provider TEXT NOT NULL, version TEXT NOT NULL, controller_required INTEGER NOT NULL,
      create_time INTEGER NOT NULL, modify_time INTEGER NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  {
    because: "what each node says of a plugin, by what it does there; counts are drawn from these",
    sql: `CREATE TABLE csi_plugin_instances (
      plugin_id TEXT NOT NULL, role TEXT NOT NULL, node_id TEXT NOT NULL, healthy INTEGER NOT NULL, info TEXT NOT NULL,
      PRIMARY KEY (plugin_id, role, node_id)) STRICT, WITHOUT ROWID`,
  },
  {
    because: "count and find the healthy ones",
    sql: "CREATE INDEX csi_plugin_instances_by_health ON csi_plugin_instances (plugin_id, role, healthy, node_id)",
  },
  { because: "what a node runs", sql: "CREATE INDEX csi_plugin_instances_by_node ON csi_plugin_instances (node_id)" },
];
