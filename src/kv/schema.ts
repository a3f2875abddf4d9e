import { namesMigration } from "../listings/name-feed.ts";
import type { Migration } from "../platform/durable/migrations.ts";

/** Schema of `KvStore`: secrets, versions, watchers and settings of one mount. */

export const kvMigrations: Migration[] = [
  // One row for each path; `current_version` 0 = metadata only. Times in ms, durations in seconds.
  `CREATE TABLE secrets (
      path TEXT PRIMARY KEY, created INTEGER NOT NULL, updated INTEGER NOT NULL, current_version INTEGER NOT NULL,
      oldest_version INTEGER NOT NULL, max_versions INTEGER NOT NULL, cas_required INTEGER NOT NULL,
      delete_version_after INTEGER NOT NULL, custom_metadata TEXT) STRICT, WITHOUT ROWID`,
  // One row for each version; `sealed` is NULL once destroyed, `deletion` NULL = not deleted.
  `CREATE TABLE versions (
      path TEXT NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL, deletion INTEGER, sealed BLOB,
      PRIMARY KEY (path, version)) STRICT`,
  // Subscribers of a path's changes: the sync destinations with an association.
  `CREATE TABLE watchers (
      path TEXT NOT NULL, destination TEXT NOT NULL, PRIMARY KEY (path, destination)) STRICT, WITHOUT ROWID`,
  // The settings of the mount.
  "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
  // When a subscribed path next loses a version to its deletion time (ms), which no request announces.
  "CREATE TABLE expiries (path TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID",
  // Find the next expiry without a scan.
  "CREATE INDEX expiries_by_time ON expiries (at)",
  // Changes that a destination has not received yet, so that one notification carries many paths; NULL =
  // none.
  `ALTER TABLE watchers ADD COLUMN untold INTEGER;
      CREATE INDEX watchers_untold ON watchers (destination, untold) WHERE untold IS NOT NULL;
      UPDATE watchers SET untold = 0
        WHERE destination || char(10) || path IN (SELECT lane FROM outbox WHERE topic = 'changed')`,
  // A change costs one row for each destination: the outbox row names the path.
  `DELETE FROM outbox WHERE topic = 'changed';
      INSERT INTO outbox (topic, lane, seq, body, enlisted)
        SELECT 'changed', destination, -row_number() OVER (), json_quote(path), 0 FROM watchers WHERE untold IS NOT NULL;
      DROP INDEX watchers_untold;
      ALTER TABLE watchers DROP COLUMN untold`,
  // Destinations with rules about secrets whose paths begin with `prefix`.
  `CREATE TABLE followers (
      destination TEXT NOT NULL, prefix TEXT NOT NULL, PRIMARY KEY (destination, prefix)) STRICT, WITHOUT ROWID`,
  // The callers that wrote and ended a version, as JSON; NULL = unknown.
  `ALTER TABLE versions ADD COLUMN created_by TEXT;
      ALTER TABLE versions ADD COLUMN deleted_by TEXT`,
  // Names of secrets that are older than the search.
  namesMigration("secrets"),
  // Find secrets that expire soon. Secrets without this metadata have no row in it.
  `CREATE INDEX secrets_by_expiry ON secrets (json_extract(custom_metadata, '$.expires_at'))
      WHERE json_extract(custom_metadata, '$.expires_at') IS NOT NULL`,
  // Check-and-set for metadata, as in OpenBao.
  `ALTER TABLE secrets ADD COLUMN metadata_cas_required INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE secrets ADD COLUMN metadata_version INTEGER NOT NULL DEFAULT 0`,
];
