import type { Migration } from "../platform/durable/migrations.ts";

/** Schema of `KvStore`: secrets, versions, watchers and settings of one mount. */

export const kvMigrations: Migration[] = [
  {
    because: "one row a path; current_version 0 = metadata only. Times in ms, durations in seconds",
    sql: `CREATE TABLE secrets (
      path TEXT PRIMARY KEY, created INTEGER NOT NULL, updated INTEGER NOT NULL, current_version INTEGER NOT NULL,
      oldest_version INTEGER NOT NULL, max_versions INTEGER NOT NULL, cas_required INTEGER NOT NULL,
      delete_version_after INTEGER NOT NULL, custom_metadata TEXT) STRICT, WITHOUT ROWID`,
  },
  {
    because: "one row a version; sealed is NULL once destroyed, deletion NULL = lives",
    sql: `CREATE TABLE versions (
      path TEXT NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL, deletion INTEGER, sealed BLOB,
      PRIMARY KEY (path, version)) STRICT`,
  },
  {
    because: "who wants to know when a path changes: the sync destinations that hold an association",
    sql: `CREATE TABLE watchers (
      path TEXT NOT NULL, destination TEXT NOT NULL, PRIMARY KEY (path, destination)) STRICT, WITHOUT ROWID`,
  },
  { because: "the mount's settings", sql: "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT" },
  {
    because: "when a watched path next loses a version to its deletion time (ms): nothing else would tell the watchers",
    sql: "CREATE TABLE expiries (path TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID",
  },
  { because: "find the next expiry without a scan", sql: "CREATE INDEX expiries_by_time ON expiries (at)" },
  {
    because: "what a destination is still to be told of, so that it is told of many paths at once; NULL = nothing new",
    sql: `ALTER TABLE watchers ADD COLUMN untold INTEGER;
      CREATE INDEX watchers_untold ON watchers (destination, untold) WHERE untold IS NOT NULL;
      UPDATE watchers SET untold = 0
        WHERE destination || char(10) || path IN (SELECT lane FROM outbox WHERE topic = 'changed')`,
  },
  {
    because: "a change costs one row for each destination: the outbox row names the path",
    sql: `DELETE FROM outbox WHERE topic = 'changed';
      INSERT INTO outbox (topic, lane, seq, body, enlisted)
        SELECT 'changed', destination, -row_number() OVER (), json_quote(path), 0 FROM watchers WHERE untold IS NOT NULL;
      DROP INDEX watchers_untold;
      ALTER TABLE watchers DROP COLUMN untold`,
  },
];
