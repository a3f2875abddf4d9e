import type { Migration } from "../../platform/durable/migrations.ts";

/** Tables of `EventLog`. */
export const alertMigrations: Migration[] = [
  // Notification rules, and the subjects for which their conditions hold: `notified` = when it was last sent (ms).
  `CREATE TABLE notification_rules (name TEXT PRIMARY KEY, definition TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE alerts (
        rule TEXT NOT NULL, subject TEXT NOT NULL, state TEXT NOT NULL, since INTEGER NOT NULL, notified INTEGER,
        detail TEXT NOT NULL, PRIMARY KEY (rule, subject)) STRICT, WITHOUT ROWID`,
];
