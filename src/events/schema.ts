import type { Migration } from "../platform/durable/migrations.ts";

/** Tables of `EventLog` about its subscribers; those of its lines are in `line-store.ts`. */
export const subscriberMigrations: Migration[] = [
  // Subscriptions that are woken after an append.
  "CREATE TABLE subscriptions (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
  // Relays with subscribers to event notifications, which are called after an append.
  "CREATE TABLE notified_relays (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
  // Relays whose subscribers may want events of secrets, and whether mounts publish these on demand: `epoch` counts the
  // times that they began, `since` = the index up to which events may be missing, `idle` = no subscriber since (ms).
  `CREATE TABLE secret_relays (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
      CREATE TABLE secret_demand (
        id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL, published INTEGER NOT NULL, since INTEGER NOT NULL,
        idle INTEGER) STRICT;
      INSERT INTO secret_demand VALUES (1, 0, 0, 0, NULL)`,
];
