import type { Migration } from "../../platform/durable/migrations.ts";

export const subscriptionMigrations: Migration[] = [
  {
    because: `one subscription: version grows with each change of what is delivered, target is sealed (URL and secret), cursor is
      the index up to which lines are settled, newest = the newest known one of the log, oldest = the first index after a gap not yet reported (0: none); body is
      last, so that the other columns are read without it`,
    sql: `CREATE TABLE subscription (
        id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, definition TEXT NOT NULL, target BLOB NOT NULL,
        namespace_id TEXT NOT NULL, since INTEGER NOT NULL, cursor INTEGER NOT NULL, newest INTEGER NOT NULL,
        oldest INTEGER NOT NULL DEFAULT 0, paused TEXT, ready_at INTEGER NOT NULL, lease TEXT, lease_until INTEGER NOT NULL DEFAULT 0) STRICT;
      CREATE TABLE batches (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, upto INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0, error TEXT, at INTEGER NOT NULL, dead INTEGER NOT NULL DEFAULT 0,
        body TEXT NOT NULL) STRICT`,
  },
];

/** The table of `EventLog`. */
export const subscriberMigrations: Migration[] = [
  {
    because: "the subscriptions that are woken after an append",
    sql: "CREATE TABLE subscriptions (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
  },
];
