import type { Migration } from "../../platform/durable/migrations.ts";

export const nodeMigrations: Migration[] = [
  {
    because: `a node; body is its record without events and indexes. row is never used again, so that an index on its way to a
      purged node never reaches a later one of the same id. heard is the number of its session's last message`,
    sql: `CREATE TABLE nodes (
      row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, origin TEXT NOT NULL, pool TEXT NOT NULL,
      status TEXT NOT NULL, eligibility TEXT NOT NULL, draining INTEGER NOT NULL,
      heard INTEGER NOT NULL, down_at INTEGER, drain_due INTEGER,
      body TEXT NOT NULL, events TEXT NOT NULL, create_line INTEGER NOT NULL, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  { because: "find a node, list nodes in order", sql: "CREATE UNIQUE INDEX nodes_by_id ON nodes (id)" },
  { because: "the nodes of a pool", sql: "CREATE INDEX nodes_by_pool ON nodes (pool, id)" },
  {
    because: "where something can be placed, however many nodes are away",
    sql: "CREATE INDEX nodes_ready ON nodes (id) WHERE status = 'ready' AND eligibility = 'eligible'",
  },
  {
    because: "and in one pool",
    sql: "CREATE INDEX nodes_ready_in_pool ON nodes (pool, id) WHERE status = 'ready' AND eligibility = 'eligible'",
  },
  {
    because: "nodes that are down unless they come back",
    sql: "CREATE INDEX nodes_by_down_at ON nodes (down_at) WHERE down_at IS NOT NULL",
  },
  {
    because: "drains that end at a time",
    sql: "CREATE INDEX nodes_by_drain_due ON nodes (drain_due) WHERE drain_due IS NOT NULL",
  },
  {
    because: "a host volume that a node shows: a change of one does not write the node's record, which leaves them out",
    sql: `CREATE TABLE node_volumes (
      node_id TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
      PRIMARY KEY (node_id, name)) STRICT, WITHOUT ROWID;
      INSERT INTO node_volumes
        SELECT nodes.id, volume.key, ifnull(json_extract(volume.value, '$.ID'), ''), volume.value
        FROM nodes, json_each(nodes.body, '$.HostVolumes') AS volume WHERE volume.key IS NOT NULL;
      UPDATE nodes SET body = json_remove(body, '$.HostVolumes') WHERE json_type(body, '$.HostVolumes') = 'object'`,
  },
  { because: "find a node's volume", sql: "CREATE INDEX node_volumes_by_id ON node_volumes (node_id, id)" },
];
