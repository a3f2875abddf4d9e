import type { Migration } from "../../platform/durable/migrations.ts";

export const nodeMigrations: Migration[] = [
  // Nodes; `body` is the record without events and indexes. `row` is never reused, so that an index on its
  // way to a purged node does not reach a later one with its id. `heard` is the number of its session's last
  // message.
  `CREATE TABLE nodes (
      row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, origin TEXT NOT NULL, pool TEXT NOT NULL,
      status TEXT NOT NULL, eligibility TEXT NOT NULL, draining INTEGER NOT NULL,
      heard INTEGER NOT NULL, down_at INTEGER, drain_due INTEGER,
      body TEXT NOT NULL, events TEXT NOT NULL, create_line INTEGER NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  // Find a node; list nodes in order.
  "CREATE UNIQUE INDEX nodes_by_id ON nodes (id)",
  // Nodes of a pool.
  "CREATE INDEX nodes_by_pool ON nodes (pool, id)",
  // Nodes that accept placements, apart from the others.
  "CREATE INDEX nodes_ready ON nodes (id) WHERE status = 'ready' AND eligibility = 'eligible'",
  // The same, in one pool.
  "CREATE INDEX nodes_ready_in_pool ON nodes (pool, id) WHERE status = 'ready' AND eligibility = 'eligible'",
  // Nodes that are marked down unless they reconnect.
  "CREATE INDEX nodes_by_down_at ON nodes (down_at) WHERE down_at IS NOT NULL",
  // Drains with a deadline.
  "CREATE INDEX nodes_by_drain_due ON nodes (drain_due) WHERE drain_due IS NOT NULL",
  // Host volumes of a node, apart from its record, so that a change of one does not write the record.
  `CREATE TABLE node_volumes (
      node_id TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
      PRIMARY KEY (node_id, name)) STRICT, WITHOUT ROWID;
      INSERT INTO node_volumes
        SELECT nodes.id, volume.key, ifnull(json_extract(volume.value, '$.ID'), ''), volume.value
        FROM nodes, json_each(nodes.body, '$.HostVolumes') AS volume WHERE volume.key IS NOT NULL;
      UPDATE nodes SET body = json_remove(body, '$.HostVolumes') WHERE json_type(body, '$.HostVolumes') = 'object'`,
  // Find a volume of a node.
  "CREATE INDEX node_volumes_by_id ON node_volumes (node_id, id)",
];
