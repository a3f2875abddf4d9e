import type { Migration } from "../../platform/durable/migrations.ts";

export const subscriptionMigrations: Migration[] = [
  // One subscription. `version` grows with each change of its filter or target; `target` (URL and secret) is
  // sealed; `cursor` is the last settled index, `newest` the newest known one of the log, `oldest` the first one
  // after an unreported gap (0: none). `body` stands last, so that other columns are read without it.
  `CREATE TABLE subscription (
        id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, definition TEXT NOT NULL, target BLOB NOT NULL,
        namespace_id TEXT NOT NULL, since INTEGER NOT NULL, cursor INTEGER NOT NULL, newest INTEGER NOT NULL,
        oldest INTEGER NOT NULL DEFAULT 0, paused TEXT, ready_at INTEGER NOT NULL, lease TEXT, lease_until INTEGER NOT NULL DEFAULT 0) STRICT;
      CREATE TABLE batches (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, upto INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0, error TEXT, at INTEGER NOT NULL, dead INTEGER NOT NULL DEFAULT 0,
        body TEXT NOT NULL) STRICT`,
  // The newest index up to which lines may be missing, as a batch has told or will tell; 0: none.
  "ALTER TABLE subscription ADD COLUMN told INTEGER NOT NULL DEFAULT 0",
];
