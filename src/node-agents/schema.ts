import type { Migration } from "../platform/durable/migrations.ts";

/** Tables of `ClusterRegistry`: enrolment. */
export const enrolmentMigrations: Migration[] = [
  // Join tokens, by the SHA-256 of their 256 random bits; `node_id` is the node that used one.
  `CREATE TABLE join_tokens (
      accessor TEXT PRIMARY KEY, hash TEXT NOT NULL, pool TEXT NOT NULL, name TEXT, created INTEGER NOT NULL,
      expires INTEGER NOT NULL, node_id TEXT) STRICT`,
  // Find a presented token.
  "CREATE UNIQUE INDEX join_tokens_by_hash ON join_tokens (hash)",
  // The next to expire.
  "CREATE INDEX join_tokens_by_expiry ON join_tokens (expires)",
  // Agents: the key that one connects with, the node that its join bound it to, and, up to change `seq`, the
  // reports of its session.
  `CREATE TABLE agents (
      node_id TEXT PRIMARY KEY, public_key TEXT NOT NULL, service TEXT NOT NULL, pool TEXT NOT NULL, name TEXT NOT NULL,
      name_bound INTEGER NOT NULL, created INTEGER NOT NULL, seq INTEGER NOT NULL DEFAULT 0, connected_since INTEGER,
      seen INTEGER, version TEXT) STRICT`,
  // A key belongs to one agent.
  "CREATE UNIQUE INDEX agents_by_key ON agents (public_key)",
];

/** Tables of `NodeSession`. */
export const sessionMigrations: Migration[] = [
  // The current connection and the state of the agent; `seq` numbers the changes sent to the registry.
  `CREATE TABLE session (
      id INTEGER PRIMARY KEY CHECK (id = 1), live TEXT, opened INTEGER NOT NULL DEFAULT 0, since INTEGER,
      boot TEXT NOT NULL DEFAULT '', epoch INTEGER NOT NULL DEFAULT 0, version TEXT NOT NULL DEFAULT '', seen INTEGER,
      lost INTEGER, seq INTEGER NOT NULL DEFAULT 0, check_due INTEGER, holds_keys INTEGER NOT NULL DEFAULT 0,
      revoked INTEGER NOT NULL DEFAULT 0) STRICT`,
  // The only row.
  "INSERT INTO session (id) VALUES (1)",
  // The agent's report about its node; `told` = the newest change that the registry has.
  `CREATE TABLE report (
      id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL, seq INTEGER NOT NULL, told INTEGER NOT NULL) STRICT`,
  // Used connect tokens.
  "CREATE TABLE used_tokens (jti TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT",
  // Delete the oldest.
  "CREATE INDEX used_tokens_by_end ON used_tokens (until)",
  // Operations, in order of arrival. `connection` = the one over which it was last sent; `due` = its
  // deadline, then its next attempt, then its deletion.
  `CREATE TABLE operations (
      position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, method TEXT NOT NULL, key TEXT NOT NULL,
      gen INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, params TEXT NOT NULL, sealed BLOB, state TEXT NOT NULL,
      connection TEXT, sends INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, due INTEGER NOT NULL) STRICT`,
  // Recognize an operation.
  "CREATE UNIQUE INDEX operations_by_id ON operations (id)",
  // The newest generation of a key.
  "CREATE INDEX operations_by_key ON operations (key, gen)",
  // Find the next deadline.
  "CREATE INDEX operations_by_due ON operations (due)",
  // Unfinished operations of a connection.
  `CREATE INDEX operations_open ON operations (connection, position) WHERE state NOT IN ('done', 'failed')`,
  // The agent's last report on an unknown outcome: the owner is notified of changes.
  "ALTER TABLE operations ADD COLUMN said TEXT",
  // Host volumes that the agent reports as usable, last changed by change `seq`; `body` NULL = gone, until
  // the registry is notified. A change of one writes neither the report nor the other rows.
  `CREATE TABLE report_volumes (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, body TEXT) STRICT, WITHOUT ROWID;
      INSERT INTO report_volumes SELECT json_extract(volume.value, '$.ID'), report.seq, volume.value
        FROM report, json_each(report.body, '$.node.HostVolumes') AS volume;
      UPDATE report SET body = json_remove(body, '$.node.HostVolumes', '$.unavailableVolumes')`,
  // Volumes with changes that the registry does not have.
  "CREATE INDEX report_volumes_by_seq ON report_volumes (seq)",
  // The next check for silence is in memory, so that the check of a healthy agent writes no row.
  "ALTER TABLE session DROP COLUMN check_due",
];
