import type { SyncStatus } from "../contracts/sync-destination.ts";
import type { Migration } from "../platform/durable/migrations.ts";

/** Schema and rows of `SyncDestination`. Terms: `wish` is the desired state, `copies` are remote objects. */

export const destinationMigrations: Migration[] = [
  {
    because: "the destination itself; connection details sealed, everything else plain",
    sql: `CREATE TABLE destination (
      id INTEGER PRIMARY KEY CHECK (id = 1), namespace TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL,
      granularity TEXT NOT NULL, template TEXT NOT NULL, custom_tags TEXT NOT NULL, connection BLOB NOT NULL,
      created INTEGER NOT NULL, updated INTEGER NOT NULL) STRICT`,
  },
  {
    because:
      "what should be at the destination; intent grows with each wish, seed makes its tokens unguessable; known says whether what is outside is synced_version (null: nothing) for certain",
    sql: `CREATE TABLE associations (
      id TEXT PRIMARY KEY, mount_uuid TEXT NOT NULL, mount_accessor TEXT NOT NULL, mount_path TEXT NOT NULL,
      secret_name TEXT NOT NULL, wish TEXT NOT NULL, intent INTEGER NOT NULL, seed TEXT NOT NULL,
      external_name TEXT NOT NULL, stale_names TEXT NOT NULL, tag_keys TEXT NOT NULL, known INTEGER NOT NULL,
      status TEXT NOT NULL, error_code TEXT, error_message TEXT, synced_version INTEGER, updated INTEGER NOT NULL) STRICT`,
  },
  {
    because: "a change in a mount finds its association; two secrets never share an external name",
    sql: "CREATE INDEX associations_by_secret ON associations (mount_uuid, secret_name)",
  },
  {
    because: "see who holds an external name",
    sql: "CREATE INDEX associations_by_external_name ON associations (external_name)",
  },
  {
    because: "see who holds a name that is still to be removed; few do",
    sql: "CREATE INDEX associations_with_stale_names ON associations (id) WHERE stale_names <> '[]'",
  },
  {
    because: "what a repaired configuration lets try again",
    sql: "CREATE INDEX associations_refused ON associations (id) WHERE status = 'CLIENT_SIDE_ERROR'",
  },
  {
    because: "objects of a destination that keeps them itself",
    sql: "CREATE TABLE stored_objects (name TEXT PRIMARY KEY, value BLOB NOT NULL, tags TEXT NOT NULL, updated INTEGER NOT NULL) STRICT",
  },
  {
    because:
      "one row an external object that is or may be there, so an association can have many; fold = what the provider takes for the same name; obsolete = to be removed; ours = we may have written it; known = the row says for certain what is there (version NULL: nothing)",
    sql: `CREATE TABLE copies (
      association TEXT NOT NULL, sub_key TEXT NOT NULL, external_name TEXT NOT NULL, fold TEXT NOT NULL,
      obsolete INTEGER NOT NULL DEFAULT 0, ours INTEGER NOT NULL DEFAULT 0, known INTEGER NOT NULL DEFAULT 0, version INTEGER,
      fingerprint TEXT, reference TEXT, tag_keys TEXT NOT NULL DEFAULT '[]', blocked TEXT, left_alone INTEGER NOT NULL DEFAULT 0,
      status TEXT NOT NULL, error_code TEXT, error_message TEXT, updated INTEGER NOT NULL,
      PRIMARY KEY (association, sub_key, external_name)) STRICT, WITHOUT ROWID;
      INSERT INTO copies (association, sub_key, external_name, fold, ours, version, tag_keys, status, error_code, error_message, updated)
        SELECT id, '', external_name, external_name, 1, synced_version, tag_keys, status, error_code, error_message, updated
        FROM associations;
      INSERT OR IGNORE INTO copies (association, sub_key, external_name, fold, obsolete, ours, status, updated)
        SELECT a.id, '', name.value, name.value, 1, 1, 'PENDING', a.updated FROM associations a, json_each(a.stale_names) name`,
  },
  { because: "see who holds an external name", sql: "CREATE INDEX copies_by_fold ON copies (fold)" },
  {
    because: "an association keeps the naming it was set with until it is set again",
    sql: `CREATE TABLE namings (
      id INTEGER PRIMARY KEY, granularity TEXT NOT NULL, template TEXT NOT NULL, UNIQUE (granularity, template)) STRICT;
      INSERT INTO namings SELECT 1, granularity, template FROM destination`,
  },
  {
    because:
      "what a copy knows has moved there; asked = push even what is there already; naming = the row of namings in force",
    sql: `DROP INDEX associations_by_external_name;
      DROP INDEX associations_with_stale_names;
      DROP INDEX associations_refused;
      ALTER TABLE associations DROP COLUMN external_name;
      ALTER TABLE associations DROP COLUMN stale_names;
      ALTER TABLE associations DROP COLUMN tag_keys;
      ALTER TABLE associations DROP COLUMN known;
      ALTER TABLE associations ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE associations ADD COLUMN naming INTEGER NOT NULL DEFAULT 1`,
  },
  {
    because: "find an association by the path that its mount had",
    sql: "CREATE INDEX associations_by_path ON associations (mount_path, secret_name)",
  },
  {
    because:
      "policies; word = the type as its creator called it, for templates; fingerprint_key (sealed) makes fingerprints of values that tell nothing without it",
    sql: `ALTER TABLE destination ADD COLUMN update_policy TEXT NOT NULL DEFAULT 'replace';
      ALTER TABLE destination ADD COLUMN deletion_policy TEXT NOT NULL DEFAULT 'delete';
      ALTER TABLE destination ADD COLUMN word TEXT NOT NULL DEFAULT '';
      ALTER TABLE destination ADD COLUMN fingerprint_key BLOB`,
  },
  {
    because:
      "a purge, or a forced end: since when, how far it has told the associations (NULL: all), how it failed; force = whatever fails",
    sql: `CREATE TABLE purge (
      id INTEGER PRIMARY KEY CHECK (id = 1), initiated INTEGER NOT NULL, cursor TEXT, error TEXT, force INTEGER NOT NULL) STRICT`,
  },
  {
    because: "the scan for what was missed: when its next page is due, and behind which association that begins",
    sql: "CREATE TABLE scan (id INTEGER PRIMARY KEY CHECK (id = 1), next_at INTEGER NOT NULL, cursor TEXT NOT NULL) STRICT",
  },
  {
    because: "this destination's share of the queue, as SyncControl granted it last",
    sql: "CREATE TABLE share (id INTEGER PRIMARY KEY CHECK (id = 1), granted INTEGER NOT NULL) STRICT",
  },
  {
    because: "the circuit breaker: failures in a row, and until when nothing is tried",
    sql: "CREATE TABLE breaker (id INTEGER PRIMARY KEY CHECK (id = 1), failures INTEGER NOT NULL, open_until INTEGER NOT NULL) STRICT",
  },
  {
    because: "a question about the share that has had no answer is asked again, also after a crash",
    sql: "ALTER TABLE share ADD COLUMN open INTEGER NOT NULL DEFAULT 0",
  },
  {
    because:
      "the circuit breaker counts associations, not attempts: events numbers failures, succeeded is the number at the last success, trials counts failures since it opened; failing has each association whose last attempt failed",
    sql: `ALTER TABLE breaker ADD COLUMN events INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE breaker ADD COLUMN succeeded INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE breaker ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
      CREATE TABLE failing (
        association TEXT PRIMARY KEY, since INTEGER NOT NULL, latest INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE INDEX failing_by_since ON failing (since);
      CREATE INDEX failing_by_latest ON failing (latest)`,
  },
  {
    because:
      "a push whose outcome is unknown may have left something outside that only a later push can find: when the first of them began",
    sql: "ALTER TABLE copies ADD COLUMN unsure_since INTEGER",
  },
  {
    because:
      "answers leave out a granularity that was not given; of older destinations one that differs from the default was",
    sql: `ALTER TABLE destination ADD COLUMN granularity_given INTEGER NOT NULL DEFAULT 0;
      UPDATE destination SET granularity_given = 1 WHERE granularity <>
        CASE WHEN type IN ('repo-host', 'deploy-project') THEN 'secret-key' ELSE 'secret-path' END`,
  },
  {
    because:
      "destinations that write to the same place agree on names: targets = those that SyncControl knows of, claimed = the targets at which no other destination has the name",
    sql: `ALTER TABLE destination ADD COLUMN targets TEXT;
      ALTER TABLE copies ADD COLUMN claimed TEXT;
      CREATE TABLE neighbours (destination TEXT PRIMARY KEY) STRICT, WITHOUT ROWID`,
  },
  {
    because:
      "mount_path follows a mount that moves; named_path = the path in names of remote objects until the association is set again, NULL: the same",
    sql: "ALTER TABLE associations ADD COLUMN named_path TEXT",
  },
  {
    because:
      "an update sends tags only when they differ from those of the last push: their digest, NULL while they are uncertain",
    sql: "ALTER TABLE copies ADD COLUMN tags_written TEXT",
  },
  {
    because:
      "networks and ports that calls are restricted to, as JSON; origin = issuer of identity tokens without a configured one",
    sql: `ALTER TABLE destination ADD COLUMN networking TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE destination ADD COLUMN origin TEXT NOT NULL DEFAULT ''`,
  },
];

export interface DestinationRow extends Record<string, SqlStorageValue> {
  namespace: string;
  type: string;
  name: string;
  granularity: string;
  granularity_given: 0 | 1;
  template: string;
  custom_tags: string;
  connection: ArrayBuffer;
  created: number;
  updated: number;
  update_policy: string;
  deletion_policy: string;
  word: string;
  networking: string;
  origin: string;
  fingerprint_key: ArrayBuffer | null;
  /** The targets registered with `SyncControl`, joined to one text; null: none were registered. */
  targets: string | null;
}

export interface AssociationRow extends Record<string, SqlStorageValue> {
  id: string;
  mount_uuid: string;
  mount_accessor: string;
  mount_path: string;
  /** The mount's path in names of remote objects, after a move; null: `mount_path`. */
  named_path: string | null;
  secret_name: string;
  wish: "present" | "absent";
  intent: number;
  seed: string;
  status: SyncStatus;
  error_code: string | null;
  error_message: string | null;
  synced_version: number | null;
  updated: number;
  asked: number;
  naming: number;
}

export interface RemoteObjectRow extends Record<string, SqlStorageValue> {
  association: string;
  sub_key: string;
  external_name: string;
  fold: string;
  obsolete: number;
  ours: number;
  known: number;
  version: number | null;
  fingerprint: string | null;
  reference: string | null;
  tag_keys: string;
  /** The digest of the tags that the last push wrote; null while the tags at the provider are uncertain. */
  tags_written: string | null;
  /** The reason a desired object may not be pushed; null when it may. */
  blocked: string | null;
  left_alone: number;
  /** Start of the first push with unknown outcome since the last known one (ms since 1970). */
  unsure_since: number | null;
  /** The targets with which the name was checked to be free, joined to one text; null: not checked. */
  claimed: string | null;
  status: SyncStatus;
  error_code: string | null;
  error_message: string | null;
  updated: number;
}

export interface PurgeRow extends Record<string, SqlStorageValue> {
  initiated: number;
  /** The last association that was set to absent; null: all were. */
  cursor: string | null;
  error: string | null;
  force: number;
}
