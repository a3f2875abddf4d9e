import type { Migration } from "../platform/durable/migrations.ts";

export const engineMigrations: Migration[] = [
  {
    because: "the configuration, sealed whole",
    sql: "CREATE TABLE config (id INTEGER PRIMARY KEY CHECK (id = 1), sealed BLOB NOT NULL) STRICT",
  },
  {
    because: "roles as they were written and looked up",
    sql: "CREATE TABLE roles (name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT",
  },
  {
    because:
      "work at the cloud: what is known of it so far, sealed; lock = what only one job may change at a time; seq = which step is out",
    sql: `CREATE TABLE jobs (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, sealed BLOB NOT NULL, token TEXT, repeat TEXT UNIQUE,
      lock TEXT, locked INTEGER NOT NULL DEFAULT 0, deadline INTEGER, seq INTEGER NOT NULL DEFAULT 0,
      tries INTEGER NOT NULL DEFAULT 0,
      failures INTEGER NOT NULL DEFAULT 0, failure TEXT, created INTEGER NOT NULL) STRICT`,
  },
  {
    because: "issues of a token that ends are given up",
    sql: "CREATE INDEX jobs_by_token ON jobs (token) WHERE token IS NOT NULL",
  },
  { because: "who holds a lock", sql: "CREATE INDEX jobs_by_lock ON jobs (lock) WHERE lock IS NOT NULL" },
  {
    because:
      "leases: the ids to revoke by; times in ms; sealed = the credentials, kept only for a request that may repeat",
    sql: `CREATE TABLE leases (
      id TEXT PRIMARY KEY, role TEXT NOT NULL, token TEXT NOT NULL, holding TEXT NOT NULL, issued INTEGER NOT NULL,
      expires INTEGER NOT NULL, key_ends INTEGER NOT NULL, renewed INTEGER, renewable INTEGER NOT NULL,
      state TEXT NOT NULL, failure TEXT, repeat TEXT UNIQUE, sealed BLOB) STRICT`,
  },
  { because: "find the next lease to end", sql: "CREATE INDEX leases_by_expiry ON leases (state, expires)" },
  { because: "leases end with their token", sql: "CREATE INDEX leases_by_token ON leases (token, state)" },
  {
    because: "facts of the engine: closing, gone, rotation",
    sql: "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
  },
  {
    because: "whether work of a kind is under way is asked at every change",
    sql: "CREATE INDEX jobs_by_kind ON jobs (kind)",
  },
  {
    because:
      "a lease is revoked at hand_over_by (ms) unless its answer has left by then; null: it has, or its caller asks again",
    sql: "ALTER TABLE leases ADD COLUMN hand_over_by INTEGER",
  },
  {
    because: "find the leases whose answer has not left",
    sql: "CREATE INDEX leases_by_hand_over ON leases (hand_over_by) WHERE hand_over_by IS NOT NULL",
  },
];
