import type { Migration } from "../platform/durable/migrations.ts";

/** Tables of `ClusterRegistry`: enrolment. */
export const enrolmentMigrations: Migration[] = [
  {
    because: "a join token, by the SHA-256 of its 256 random bits; node_id says who has used it",
    sql: `CREATE TABLE join_tokens (
      accessor TEXT PRIMARY KEY, hash TEXT NOT NULL, pool TEXT NOT NULL, name TEXT, created INTEGER NOT NULL,
      expires INTEGER NOT NULL, node_id TEXT) STRICT`,
  },
  { because: "find a token that is presented", sql: "CREATE UNIQUE INDEX join_tokens_by_hash ON join_tokens (hash)" },
  { because: "find the next that expires", sql: "CREATE INDEX join_tokens_by_expiry ON join_tokens (expires)" },
  {
    because:
      "an agent: the key it connects by, what its join bound it to, and, up to change number seq, what its session told",
    sql: `CREATE TABLE agents (
      node_id TEXT PRIMARY KEY, public_key TEXT NOT NULL, service TEXT NOT NULL, pool TEXT NOT NULL, name TEXT NOT NULL,
      name_bound INTEGER NOT NULL, created INTEGER NOT NULL, seq INTEGER NOT NULL DEFAULT 0, connected_since INTEGER,
      seen INTEGER, version TEXT) STRICT`,
  },
  { because: "a key is one agent's", sql: "CREATE UNIQUE INDEX agents_by_key ON agents (public_key)" },
];

/** Tables of `NodeSession`. */
export const sessionMigrations: Migration[] = [
  {
    because: "the connection in use and what is known of the agent; seq numbers the changes that the registry is told",
    sql: `CREATE TABLE session (
      id INTEGER PRIMARY KEY CHECK (id = 1), live TEXT, opened INTEGER NOT NULL DEFAULT 0, since INTEGER,
      boot TEXT NOT NULL DEFAULT '', epoch INTEGER NOT NULL DEFAULT 0, version TEXT NOT NULL DEFAULT '', seen INTEGER,
      lost INTEGER, seq INTEGER NOT NULL DEFAULT 0, check_due INTEGER, holds_keys INTEGER NOT NULL DEFAULT 0,
      revoked INTEGER NOT NULL DEFAULT 0) STRICT`,
  },
  { because: "there is always the one", sql: "INSERT INTO session (id) VALUES (1)" },
  {
    because: "what the agent reported of its node; told = what of it the registry has",
    sql: `CREATE TABLE report (
      id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL, seq INTEGER NOT NULL, told INTEGER NOT NULL) STRICT`,
  },
  {
    because: "connect tokens that have been used",
    sql: "CREATE TABLE used_tokens (jti TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT",
  },
  { because: "forget them in order", sql: "CREATE INDEX used_tokens_by_end ON used_tokens (until)" },
  {
    because:
      "operations, in order of arrival. connection = over which it was last sent; due = its deadline, then its next try, then its end",
    sql: `CREATE TABLE operations (
      position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, method TEXT NOT NULL, key TEXT NOT NULL,
      gen INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, params TEXT NOT NULL, sealed BLOB, state TEXT NOT NULL,
      connection TEXT, sends INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, due INTEGER NOT NULL) STRICT`,
  },
  { because: "recognise an operation", sql: "CREATE UNIQUE INDEX operations_by_id ON operations (id)" },
  { because: "the newest generation of a key", sql: "CREATE INDEX operations_by_key ON operations (key, gen)" },
  { because: "find the next deadline", sql: "CREATE INDEX operations_by_due ON operations (due)" },
  {
    because: "find those that have not ended by the connection they are out on",
    sql: `CREATE INDEX operations_open ON operations (connection, position) WHERE state NOT IN ('done', 'failed')`,
  },
  {
    because: "what the agent last said of an unknown outcome: its owner is told what is new of that",
    sql: "ALTER TABLE operations ADD COLUMN said TEXT",
  },
  {
    because: `a host volume that the agent reports as usable, changed last by change seq; body NULL = gone, until the registry is
      told. A change of one writes neither the report nor the others`,
    sql: `CREATE TABLE report_volumes (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, body TEXT) STRICT, WITHOUT ROWID;
      INSERT INTO report_volumes SELECT json_extract(volume.value, '$.ID'), report.seq, volume.value
        FROM report, json_each(report.body, '$.node.HostVolumes') AS volume;
      UPDATE report SET body = json_remove(body, '$.node.HostVolumes', '$.unavailableVolumes')`,
  },
  {
    because: "find what the registry has not been told",
    sql: "CREATE INDEX report_volumes_by_seq ON report_volumes (seq)",
  },
  {
    because: "the next check for silence is in memory, so that the check of a healthy agent writes no row",
    sql: "ALTER TABLE session DROP COLUMN check_due",
  },
];
