import type { Migration } from "../../platform/durable/migrations.ts";

export const csiPluginMigrations: Migration[] = [
  // CSI plugins, from the first healthy instance until the last one is gone.
  `CREATE TABLE csi_plugins (
      id TEXT PRIMARY KEY, provider TEXT NOT NULL, version TEXT NOT NULL, controller_required INTEGER NOT NULL,
      create_time INTEGER NOT NULL, modify_time INTEGER NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  // Instances of plugins as nodes report them, by role. The counts of a plugin are computed from these rows.
  `CREATE TABLE csi_plugin_instances (
      plugin_id TEXT NOT NULL, role TEXT NOT NULL, node_id TEXT NOT NULL, healthy INTEGER NOT NULL, info TEXT NOT NULL,
      PRIMARY KEY (plugin_id, role, node_id)) STRICT, WITHOUT ROWID`,
  // Count and find the healthy instances.
  "CREATE INDEX csi_plugin_instances_by_health ON csi_plugin_instances (plugin_id, role, healthy, node_id)",
  // Instances of a node.
  "CREATE INDEX csi_plugin_instances_by_node ON csi_plugin_instances (node_id)",
];

export const csiVolumeMigrations: Migration[] = [
  // CSI volumes; `body` is the record without secrets and indexes.
  `CREATE TABLE csi_volumes (
      namespace TEXT NOT NULL, id TEXT NOT NULL, plugin_id TEXT NOT NULL, body TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER, PRIMARY KEY (namespace, id)) STRICT`,
  // Volumes of a plugin.
  "CREATE INDEX csi_volumes_by_plugin ON csi_volumes (plugin_id, namespace, id)",
  // Secrets of a volume for calls of its plugin, sealed.
  `CREATE TABLE csi_volume_secrets (
      namespace TEXT NOT NULL, id TEXT NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (namespace, id)) STRICT, WITHOUT ROWID`,
  // Volumes that the task groups of a job request, by version of the job.
  `CREATE TABLE csi_job_volumes (
      namespace TEXT NOT NULL, source TEXT NOT NULL, per_alloc INTEGER NOT NULL, job_id TEXT NOT NULL, task_group TEXT NOT NULL,
      read_only INTEGER NOT NULL, first_version INTEGER NOT NULL, last_version INTEGER NOT NULL,
      PRIMARY KEY (namespace, source, per_alloc, job_id, task_group)) STRICT, WITHOUT ROWID`,
  // Delete a job.
  "CREATE INDEX csi_job_volumes_by_job ON csi_job_volumes (namespace, job_id)",
  // Allocations of a job that still run, apart from the many that have ended.
  `CREATE INDEX reported_live_by_job ON reported (namespace, job_id) WHERE topic = 'Allocation' AND terminal = 0`,
  // Calls of plugins. `gen` fences late results; `lock` allows one call at a time; `due` is the end of the
  // wait or of the row.
  `CREATE TABLE csi_operations (
      gen INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, plugin_id TEXT NOT NULL, namespace TEXT NOT NULL,
      volume_id TEXT NOT NULL, lock TEXT, serial INTEGER NOT NULL, node_id TEXT NOT NULL, tried TEXT NOT NULL,
      uncertain INTEGER NOT NULL DEFAULT 0, method TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL,
      params TEXT NOT NULL, change TEXT, sealed BLOB, refusal TEXT, result TEXT, idx INTEGER,
      created INTEGER NOT NULL, ended INTEGER, due INTEGER) STRICT`,
  // Look up an operation.
  "CREATE UNIQUE INDEX csi_operations_by_id ON csi_operations (id)",
  // One change of a volume at a time.
  "CREATE UNIQUE INDEX csi_operations_locks ON csi_operations (lock) WHERE state IN ('queued', 'running')",
  // One changing call with the same lock at a time.
  "CREATE UNIQUE INDEX csi_operations_serial ON csi_operations (plugin_id) WHERE serial = 1 AND state = 'running'",
  // Queue of a plugin in its order.
  "CREATE INDEX csi_operations_queue ON csi_operations (plugin_id, namespace, gen) WHERE state = 'queued'",
  // History of a volume's operations.
  "CREATE INDEX csi_operations_by_volume ON csi_operations (namespace, volume_id, gen)",
  // A repeated request finds the operation of the first.
  "CREATE INDEX csi_operations_by_request ON csi_operations (request) WHERE state IN ('queued', 'running')",
  // Unfinished operations of a node.
  "CREATE INDEX csi_operations_by_node ON csi_operations (node_id) WHERE state = 'running'",
  // Find the next alarm without a scan.
  "CREATE INDEX csi_operations_by_due ON csi_operations (due) WHERE due IS NOT NULL",
  // How a group requests a volume, for its claims; `mount` is sealed.
  "ALTER TABLE csi_job_volumes ADD COLUMN access_mode TEXT NOT NULL DEFAULT ''",
  // See above.
  "ALTER TABLE csi_job_volumes ADD COLUMN attachment_mode TEXT NOT NULL DEFAULT ''",
  // See above.
  "ALTER TABLE csi_job_volumes ADD COLUMN mount BLOB",
  // Claims of allocations on volumes, from the report of the allocation until everything done for it is
  // undone. `operation` is the running one, `due` the next check; `mount` and `publish_context` are sealed.
  `CREATE TABLE csi_claims (
      row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, volume_id TEXT NOT NULL, alloc_id TEXT NOT NULL,
      node_id TEXT NOT NULL, external_node_id TEXT NOT NULL DEFAULT '', plugin_id TEXT NOT NULL DEFAULT '',
      mode TEXT NOT NULL, access_mode TEXT NOT NULL DEFAULT '', attachment_mode TEXT NOT NULL DEFAULT '',
      state TEXT NOT NULL, operation TEXT, attach_asked INTEGER NOT NULL DEFAULT 0,
      publish_asked INTEGER NOT NULL DEFAULT 0, owes_expansion INTEGER NOT NULL DEFAULT 0,
      attempts INTEGER NOT NULL DEFAULT 0, refusal TEXT, due INTEGER, mount BLOB, publish_context BLOB,
      path TEXT NOT NULL DEFAULT '', created INTEGER NOT NULL, updated INTEGER NOT NULL) STRICT`,
  // One claim of an allocation on a volume.
  "CREATE UNIQUE INDEX csi_claims_by_name ON csi_claims (namespace, volume_id, alloc_id)",
  // Claims of a volume, by age.
  "CREATE INDEX csi_claims_by_age ON csi_claims (namespace, volume_id, row)",
  // Claims of an allocation that ends.
  "CREATE INDEX csi_claims_by_allocation ON csi_claims (namespace, alloc_id)",
  // Claims on a node.
  "CREATE INDEX csi_claims_by_node ON csi_claims (node_id, plugin_id)",
  // Claims that wait for a plugin.
  "CREATE INDEX csi_claims_refused ON csi_claims (plugin_id) WHERE refusal IS NOT NULL",
  // The claim of a finished operation.
  "CREATE UNIQUE INDEX csi_claims_by_operation ON csi_claims (operation) WHERE operation IS NOT NULL",
  // Find the next alarm without a scan.
  "CREATE INDEX csi_claims_by_due ON csi_claims (due) WHERE due IS NOT NULL",
  // Uses of volumes that are older than claims.
  `INSERT OR IGNORE INTO csi_claims (namespace, volume_id, alloc_id, node_id, mode, state, due, created, updated)
      SELECT asked.namespace, iif(per_alloc, source || substr(json_extract(body, '$.Name'), instr(json_extract(body, '$.Name'), '[')), source),
        reported.id, node_id, iif(min(read_only), 'read', 'write'), 'pending', 0, unixepoch() * 1000, unixepoch() * 1000
      FROM csi_job_volumes AS asked CROSS JOIN reported ON topic = 'Allocation' AND reported.namespace = asked.namespace
        AND reported.job_id = asked.job_id AND terminal = 0
      WHERE node_id IS NOT NULL AND json_extract(body, '$.TaskGroup') = task_group
        AND ifnull(json_extract(body, '$.JobVersion'), last_version) BETWEEN first_version AND last_version
      GROUP BY asked.namespace, source, per_alloc, reported.id`,
  // Whether a volume has readers or writers, without a scan of its claims.
  "CREATE INDEX csi_claims_held ON csi_claims (namespace, volume_id, mode) WHERE state <> 'pending'",
  // Claims that wait for a volume, apart from those that hold it.
  "CREATE INDEX csi_claims_pending ON csi_claims (namespace, volume_id) WHERE state = 'pending'",
  // Other claims of a volume on a node.
  "CREATE INDEX csi_claims_there ON csi_claims (namespace, volume_id, node_id)",
  // The next claim of a volume to advance.
  "CREATE INDEX csi_claims_next ON csi_claims (namespace, volume_id, due) WHERE due IS NOT NULL",
  // The boot of the machine in which a volume was published: a later boot has removed the mount.
  "ALTER TABLE csi_claims ADD COLUMN boot TEXT NOT NULL DEFAULT ''",
  // Publications on nodes that were down when their claim ended; `operation` and `due` as for claims.
  `CREATE TABLE csi_leftovers (
      row INTEGER PRIMARY KEY AUTOINCREMENT, node_id TEXT NOT NULL, plugin_id TEXT NOT NULL, namespace TEXT NOT NULL,
      volume_id TEXT NOT NULL, external_id TEXT NOT NULL, alloc_id TEXT NOT NULL, operation TEXT,
      attempts INTEGER NOT NULL DEFAULT 0, due INTEGER) STRICT`,
  // One row for each publication; rows of a node that is back.
  "CREATE UNIQUE INDEX csi_leftovers_by_name ON csi_leftovers (node_id, namespace, volume_id, alloc_id)",
  // The claim of a finished operation.
  "CREATE UNIQUE INDEX csi_leftovers_by_operation ON csi_leftovers (operation) WHERE operation IS NOT NULL",
  // Find the next alarm without a scan.
  "CREATE INDEX csi_leftovers_by_due ON csi_leftovers (due) WHERE due IS NOT NULL",
  // Claims that wait for room on a node, apart from those that hold volumes there.
  "CREATE INDEX csi_claims_waiting ON csi_claims (node_id) WHERE state = 'pending'",
  // The access mode of the volume, which is that of its first claim: later claims record their own.
  "ALTER TABLE csi_claims ADD COLUMN volume_mode TEXT NOT NULL DEFAULT ''",
  // Existing claims have the mode of their volume.
  "UPDATE csi_claims SET volume_mode = access_mode WHERE state <> 'pending'",
  // Volumes that are the same one at their provider.
  `CREATE INDEX csi_volumes_by_remote_id ON csi_volumes
      (plugin_id, ifnull(nullif(json_extract(body, '$.externalId'), ''), id))`,
  // Job versions that were reported without the request: [first, last] of each run of them, in their order.
  "ALTER TABLE csi_job_volumes ADD COLUMN lacking TEXT NOT NULL DEFAULT '[]'",
];
