import type { Migration } from "../../platform/durable/migrations.ts";

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

export const csiVolumeMigrations: Migration[] = [
  {
    because: "a CSI volume; body is its record without secrets and indexes",
    sql: `CREATE TABLE csi_volumes (
      namespace TEXT NOT NULL, id TEXT NOT NULL, plugin_id TEXT NOT NULL, body TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER, PRIMARY KEY (namespace, id)) STRICT`,
  },
  { because: "what a plugin has", sql: "CREATE INDEX csi_volumes_by_plugin ON csi_volumes (plugin_id, namespace, id)" },
  {
    because: "what a volume's plugin has to be shown, sealed",
    sql: `CREATE TABLE csi_volume_secrets (
      namespace TEXT NOT NULL, id TEXT NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (namespace, id)) STRICT, WITHOUT ROWID`,
  },
  {
    because: "which volumes the groups of a job ask for, and in which of its versions",
    sql: `CREATE TABLE csi_job_volumes (
      namespace TEXT NOT NULL, source TEXT NOT NULL, per_alloc INTEGER NOT NULL, job_id TEXT NOT NULL, task_group TEXT NOT NULL,
      read_only INTEGER NOT NULL, first_version INTEGER NOT NULL, last_version INTEGER NOT NULL,
      PRIMARY KEY (namespace, source, per_alloc, job_id, task_group)) STRICT, WITHOUT ROWID`,
  },
  { because: "forget a job", sql: "CREATE INDEX csi_job_volumes_by_job ON csi_job_volumes (namespace, job_id)" },
  {
    because: "what still runs of a job, however much of it has ended",
    sql: `CREATE INDEX reported_live_by_job ON reported (namespace, job_id) WHERE topic = 'Allocation' AND terminal = 0`,
  },
  {
    because:
      "what plugins are asked for; gen fences what is late; lock: one at a time; due: when to forget it, or stop waiting",
    sql: `CREATE TABLE csi_operations (
      gen INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, plugin_id TEXT NOT NULL, namespace TEXT NOT NULL,
      volume_id TEXT NOT NULL, lock TEXT, serial INTEGER NOT NULL, node_id TEXT NOT NULL, tried TEXT NOT NULL,
      uncertain INTEGER NOT NULL DEFAULT 0, method TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL,
      params TEXT NOT NULL, change TEXT, sealed BLOB, refusal TEXT, result TEXT, idx INTEGER,
      created INTEGER NOT NULL, ended INTEGER, due INTEGER) STRICT`,
  },
  { because: "find one", sql: "CREATE UNIQUE INDEX csi_operations_by_id ON csi_operations (id)" },
  {
    because: "one change of a volume at a time",
    sql: "CREATE UNIQUE INDEX csi_operations_locks ON csi_operations (lock) WHERE state IN ('queued', 'running')",
  },
  {
    because: "one call of a plugin that changes something at a time",
    sql: "CREATE UNIQUE INDEX csi_operations_serial ON csi_operations (plugin_id) WHERE serial = 1 AND state = 'running'",
  },
  {
    because: "whose turn is next",
    sql: "CREATE INDEX csi_operations_queue ON csi_operations (plugin_id, namespace, gen) WHERE state = 'queued'",
  },
  {
    because: "what has been done to a volume",
    sql: "CREATE INDEX csi_operations_by_volume ON csi_operations (namespace, volume_id, gen)",
  },
  {
    because: "a request that comes again finds what it began",
    sql: "CREATE INDEX csi_operations_by_request ON csi_operations (request) WHERE state IN ('queued', 'running')",
  },
  {
    because: "what a node owes",
    sql: "CREATE INDEX csi_operations_by_node ON csi_operations (node_id) WHERE state = 'running'",
  },
  {
    because: "find the next alarm without a scan",
    sql: "CREATE INDEX csi_operations_by_due ON csi_operations (due) WHERE due IS NOT NULL",
  },
  {
    because: "how a group asks for a volume, which counts for its claims; mount is sealed",
    sql: "ALTER TABLE csi_job_volumes ADD COLUMN access_mode TEXT NOT NULL DEFAULT ''",
  },
  { because: "as above", sql: "ALTER TABLE csi_job_volumes ADD COLUMN attachment_mode TEXT NOT NULL DEFAULT ''" },
  { because: "as above", sql: "ALTER TABLE csi_job_volumes ADD COLUMN mount BLOB" },
  {
    because:
      "an allocation's claim on a volume, from its report until all that was done for it is undone; operation: what is under way for it; due: when to look at it; mount and publish_context are sealed",
    sql: `CREATE TABLE csi_claims (
      row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, volume_id TEXT NOT NULL, alloc_id TEXT NOT NULL,
      node_id TEXT NOT NULL, external_node_id TEXT NOT NULL DEFAULT '', plugin_id TEXT NOT NULL DEFAULT '',
      mode TEXT NOT NULL, access_mode TEXT NOT NULL DEFAULT '', attachment_mode TEXT NOT NULL DEFAULT '',
      state TEXT NOT NULL, operation TEXT, attach_asked INTEGER NOT NULL DEFAULT 0,
      publish_asked INTEGER NOT NULL DEFAULT 0, owes_expansion INTEGER NOT NULL DEFAULT 0,
      attempts INTEGER NOT NULL DEFAULT 0, refusal TEXT, due INTEGER, mount BLOB, publish_context BLOB,
      path TEXT NOT NULL DEFAULT '', created INTEGER NOT NULL, updated INTEGER NOT NULL) STRICT`,
  },
  {
    because: "one claim of an allocation on a volume",
    sql: "CREATE UNIQUE INDEX csi_claims_by_name ON csi_claims (namespace, volume_id, alloc_id)",
  },
  {
    because: "those of a volume, by age",
    sql: "CREATE INDEX csi_claims_by_age ON csi_claims (namespace, volume_id, row)",
  },
  {
    because: "those of an allocation that ends",
    sql: "CREATE INDEX csi_claims_by_allocation ON csi_claims (namespace, alloc_id)",
  },
  { because: "those on a node", sql: "CREATE INDEX csi_claims_by_node ON csi_claims (node_id, plugin_id)" },
  {
    because: "those that wait for a plugin",
    sql: "CREATE INDEX csi_claims_refused ON csi_claims (plugin_id) WHERE refusal IS NOT NULL",
  },
  {
    because: "whose operation has ended",
    sql: "CREATE UNIQUE INDEX csi_claims_by_operation ON csi_claims (operation) WHERE operation IS NOT NULL",
  },
  {
    because: "find the next alarm without a scan",
    sql: "CREATE INDEX csi_claims_by_due ON csi_claims (due) WHERE due IS NOT NULL",
  },
  {
    because: "what was in use before there were claims",
    sql: `INSERT OR IGNORE INTO csi_claims (namespace, volume_id, alloc_id, node_id, mode, state, due, created, updated)
      SELECT asked.namespace, iif(per_alloc, source || substr(json_extract(body, '$.Name'), instr(json_extract(body, '$.Name'), '[')), source),
        reported.id, node_id, iif(min(read_only), 'read', 'write'), 'pending', 0, unixepoch() * 1000, unixepoch() * 1000
      FROM csi_job_volumes AS asked CROSS JOIN reported ON topic = 'Allocation' AND reported.namespace = asked.namespace
        AND reported.job_id = asked.job_id AND terminal = 0
      WHERE node_id IS NOT NULL AND json_extract(body, '$.TaskGroup') = task_group
        AND ifnull(json_extract(body, '$.JobVersion'), last_version) BETWEEN first_version AND last_version
      GROUP BY asked.namespace, source, per_alloc, reported.id`,
  },
  {
    because: "whether anybody holds a volume, to read or to write, however many do",
    sql: "CREATE INDEX csi_claims_held ON csi_claims (namespace, volume_id, mode) WHERE state <> 'pending'",
  },
  {
    because: "who waits for room, however many hold it",
    sql: "CREATE INDEX csi_claims_pending ON csi_claims (namespace, volume_id) WHERE state = 'pending'",
  },
  {
    because: "who else has the volume on a node",
    sql: "CREATE INDEX csi_claims_there ON csi_claims (namespace, volume_id, node_id)",
  },
  {
    because: "which of a volume's claims is next",
    sql: "CREATE INDEX csi_claims_next ON csi_claims (namespace, volume_id, due) WHERE due IS NOT NULL",
  },
  {
    because: "in which start of its machine a node was asked to publish; another start has taken the mount away",
    sql: "ALTER TABLE csi_claims ADD COLUMN boot TEXT NOT NULL DEFAULT ''",
  },
  {
    because: "what a node that was down has published still of a claim that is gone; operation and due as for claims",
    sql: `CREATE TABLE csi_leftovers (
      row INTEGER PRIMARY KEY AUTOINCREMENT, node_id TEXT NOT NULL, plugin_id TEXT NOT NULL, namespace TEXT NOT NULL,
      volume_id TEXT NOT NULL, external_id TEXT NOT NULL, alloc_id TEXT NOT NULL, operation TEXT,
      attempts INTEGER NOT NULL DEFAULT 0, due INTEGER) STRICT`,
  },
  {
    because: "once each, and those of a node that is back",
    sql: "CREATE UNIQUE INDEX csi_leftovers_by_name ON csi_leftovers (node_id, namespace, volume_id, alloc_id)",
  },
  {
    because: "whose operation has ended",
    sql: "CREATE UNIQUE INDEX csi_leftovers_by_operation ON csi_leftovers (operation) WHERE operation IS NOT NULL",
  },
  {
    because: "find the next alarm without a scan",
    sql: "CREATE INDEX csi_leftovers_by_due ON csi_leftovers (due) WHERE due IS NOT NULL",
  },
  {
    because: "who waits for room on a node, however many hold volumes there",
    sql: "CREATE INDEX csi_claims_waiting ON csi_claims (node_id) WHERE state = 'pending'",
  },
  {
    because: "the volume's access mode, which is its first claim's: later ones have their own beside it",
    sql: "ALTER TABLE csi_claims ADD COLUMN volume_mode TEXT NOT NULL DEFAULT ''",
  },
  {
    because: "until now they had the volume's",
    sql: "UPDATE csi_claims SET volume_mode = access_mode WHERE state <> 'pending'",
  },
  {
    because: "which volumes are the same at their provider",
    sql: `CREATE INDEX csi_volumes_by_remote_id ON csi_volumes
      (plugin_id, ifnull(nullif(json_extract(body, '$.externalId'), ''), id))`,
  },
];
