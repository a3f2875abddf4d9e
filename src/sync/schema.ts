import type { SyncStatus } from "../contracts/sync-destination.ts";
import type { Migration } from "../platform/durable/migrations.ts";

/** Schema and rows of `SyncDestination`. Terms: `wish` is the desired state, `copies` are remote objects. */

export const destinationMigrations: Migration[] = [
  // The destination; connection details sealed, everything else plain.
  `CREATE TABLE destination (
      id INTEGER PRIMARY KEY CHECK (id = 1), namespace TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL,
      granularity TEXT NOT NULL, template TEXT NOT NULL, custom_tags TEXT NOT NULL, connection BLOB NOT NULL,
      created INTEGER NOT NULL, updated INTEGER NOT NULL) STRICT`,
  // The desired state at the destination. `intent` grows with each request; `seed` makes its tokens
  // unguessable; `known` = whether the external object is certainly at `synced_version` (NULL: absent).
  `CREATE TABLE associations (
      id TEXT PRIMARY KEY, mount_uuid TEXT NOT NULL, mount_accessor TEXT NOT NULL, mount_path TEXT NOT NULL,
      secret_name TEXT NOT NULL, wish TEXT NOT NULL, intent INTEGER NOT NULL, seed TEXT NOT NULL,
      external_name TEXT NOT NULL, stale_names TEXT NOT NULL, tag_keys TEXT NOT NULL, known INTEGER NOT NULL,
      status TEXT NOT NULL, error_code TEXT, error_message TEXT, synced_version INTEGER, updated INTEGER NOT NULL) STRICT`,
  // Associations of a changed path; two secrets never share an external name.
  "CREATE INDEX associations_by_secret ON associations (mount_uuid, secret_name)",
  // The holder of an external name.
  "CREATE INDEX associations_by_external_name ON associations (external_name)",
  // The holder of a name that is still to be removed, of which there are few.
  "CREATE INDEX associations_with_stale_names ON associations (id) WHERE stale_names <> '[]'",
  // Associations to retry after a repair of the configuration.
  "CREATE INDEX associations_refused ON associations (id) WHERE status = 'CLIENT_SIDE_ERROR'",
  // Objects of a destination that stores them itself.
  "CREATE TABLE stored_objects (name TEXT PRIMARY KEY, value BLOB NOT NULL, tags TEXT NOT NULL, updated INTEGER NOT NULL) STRICT",
  // External objects that exist or may exist; an association can have several. `fold` = the name as the
  // provider compares it; `obsolete` = to be removed; `ours` = we may have written it; `known` = the row is
  // certain (`version` NULL: absent).
  `CREATE TABLE copies (
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
  // The holder of an external name.
  "CREATE INDEX copies_by_fold ON copies (fold)",
  // An association keeps its naming until it is set again.
  `CREATE TABLE namings (
      id INTEGER PRIMARY KEY, granularity TEXT NOT NULL, template TEXT NOT NULL, UNIQUE (granularity, template)) STRICT;
      INSERT INTO namings SELECT 1, granularity, template FROM destination`,
  // Where a copied destination has moved; `asked` = push also unchanged objects; `naming` = the row of the
  // naming in force.
  `DROP INDEX associations_by_external_name;
      DROP INDEX associations_with_stale_names;
      DROP INDEX associations_refused;
      ALTER TABLE associations DROP COLUMN external_name;
      ALTER TABLE associations DROP COLUMN stale_names;
      ALTER TABLE associations DROP COLUMN tag_keys;
      ALTER TABLE associations DROP COLUMN known;
      ALTER TABLE associations ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE associations ADD COLUMN naming INTEGER NOT NULL DEFAULT 1`,
  // Associations by the former path of their mount.
  "CREATE INDEX associations_by_path ON associations (mount_path, secret_name)",
  // Policies. `word` = the type as its creator spelled it, for templates; `fingerprint_key` (sealed) keys the
  // fingerprints of values.
  `ALTER TABLE destination ADD COLUMN update_policy TEXT NOT NULL DEFAULT 'replace';
      ALTER TABLE destination ADD COLUMN deletion_policy TEXT NOT NULL DEFAULT 'delete';
      ALTER TABLE destination ADD COLUMN word TEXT NOT NULL DEFAULT '';
      ALTER TABLE destination ADD COLUMN fingerprint_key BLOB`,
  // A purge or a forced end: its start, its progress (NULL: complete) and its failure; `force` = despite
  // failures.
  `CREATE TABLE purge (
      id INTEGER PRIMARY KEY CHECK (id = 1), initiated INTEGER NOT NULL, cursor TEXT, error TEXT, force INTEGER NOT NULL) STRICT`,
  // The scan for missed changes: when its next page is due, and after which association the page begins.
  "CREATE TABLE scan (id INTEGER PRIMARY KEY CHECK (id = 1), next_at INTEGER NOT NULL, cursor TEXT NOT NULL) STRICT",
  // The share of the queue that SyncControl last granted to this destination.
  "CREATE TABLE share (id INTEGER PRIMARY KEY CHECK (id = 1), granted INTEGER NOT NULL) STRICT",
  // The circuit breaker: consecutive failures, and the end of the pause.
  "CREATE TABLE breaker (id INTEGER PRIMARY KEY CHECK (id = 1), failures INTEGER NOT NULL, open_until INTEGER NOT NULL) STRICT",
  // An unanswered request for a share is repeated, also after a crash.
  "ALTER TABLE share ADD COLUMN open INTEGER NOT NULL DEFAULT 0",
  // The circuit breaker counts associations, not attempts: `events` numbers failures, `succeeded` is the
  // number at the last success, `trials` counts failures since it opened; `failing` has each association
  // whose last attempt failed.
  `ALTER TABLE breaker ADD COLUMN events INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE breaker ADD COLUMN succeeded INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE breaker ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
      CREATE TABLE failing (
        association TEXT PRIMARY KEY, since INTEGER NOT NULL, latest INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE INDEX failing_by_since ON failing (since);
      CREATE INDEX failing_by_latest ON failing (latest)`,
  // When the first push of unknown outcome began: it may have left an object that only a later push can find.
  "ALTER TABLE copies ADD COLUMN unsure_since INTEGER",
  // Answers omit a granularity that was not given; for older destinations, one that differs from the default
  // was given.
  `ALTER TABLE destination ADD COLUMN granularity_given INTEGER NOT NULL DEFAULT 0;
      UPDATE destination SET granularity_given = 1 WHERE granularity <>
        CASE WHEN type IN ('repo-host', 'deploy-project') THEN 'secret-key' ELSE 'secret-path' END`,
  // Destinations that write to the same place agree on names: `targets` = those known to SyncControl,
  // `claimed` = those at which no other destination has the name.
  `ALTER TABLE destination ADD COLUMN targets TEXT;
      ALTER TABLE copies ADD COLUMN claimed TEXT;
      CREATE TABLE neighbours (destination TEXT PRIMARY KEY) STRICT, WITHOUT ROWID`,
  // `mount_path` follows a moved mount; `named_path` = the path used in names of external objects until the
  // association is set again, NULL: the same.
  "ALTER TABLE associations ADD COLUMN named_path TEXT",
  // An update sends tags only if they differ from those of the last push: their digest, NULL while uncertain.
  "ALTER TABLE copies ADD COLUMN tags_written TEXT",
  // Networks and ports that calls are restricted to, as JSON; `origin` = issuer of identity tokens without a
  // configured one.
  `ALTER TABLE destination ADD COLUMN networking TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE destination ADD COLUMN origin TEXT NOT NULL DEFAULT ''`,
  // The trace that the pushes of the last change continue; NULL for a change without a sampled trace.
  "ALTER TABLE associations ADD COLUMN trace TEXT",
  // The failure of a clean-up at the provider, as a sentence; NULL: none is owed. Google's references name more than
  // one version while an older one is to be destroyed.
  `ALTER TABLE copies ADD COLUMN owed TEXT;
      UPDATE copies SET owed = 'versions of earlier pushes could not be destroyed'
        WHERE reference LIKE '[[%],[%' OR reference LIKE '{"versions"%'`,
  // Associations by rule. `manual` = a request has set the association; a match of an older `generation` is to be
  // removed; `applied`: 0 to be set, 1 set, 2 refused, 3 to be set again; `removed` counts within an hour since `window`.
  `ALTER TABLE associations ADD COLUMN manual INTEGER NOT NULL DEFAULT 1;
      CREATE TABLE rules (
        name TEXT PRIMARY KEY, mount_uuid TEXT NOT NULL, mount_accessor TEXT NOT NULL, mount_path TEXT NOT NULL,
        definition TEXT NOT NULL, priority INTEGER NOT NULL, generation INTEGER NOT NULL, status TEXT NOT NULL,
        cursor TEXT NOT NULL, problem TEXT, window INTEGER NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0,
        evaluated INTEGER) STRICT;
      CREATE TABLE rule_matches (
        rule TEXT NOT NULL, secret_name TEXT NOT NULL, generation INTEGER NOT NULL, applied INTEGER NOT NULL,
        problem TEXT, PRIMARY KEY (rule, secret_name)) STRICT, WITHOUT ROWID;
      CREATE INDEX rule_matches_by_secret ON rule_matches (secret_name)`,
  // When the destination was created or its connection changed; refusals of rights are retried for a while after it.
  "ALTER TABLE destination ADD COLUMN rights_changed INTEGER NOT NULL DEFAULT 0",
  // `content` = JSON of a `ContentRule`, empty for whole secrets.
  `CREATE TABLE namings_with_content (
      id INTEGER PRIMARY KEY, granularity TEXT NOT NULL, template TEXT NOT NULL, content TEXT NOT NULL,
      UNIQUE (granularity, template, content)) STRICT;
      INSERT INTO namings_with_content SELECT id, granularity, template, '' FROM namings;
      DROP TABLE namings;
      ALTER TABLE namings_with_content RENAME TO namings`,
  // The end of the login at the provider, as the caller stated it; NULL: not known.
  "ALTER TABLE destination ADD COLUMN credentials_end INTEGER",
  // An object that was pushed, and left at the provider when its secret was deleted: a later push may replace it.
  "ALTER TABLE copies ADD COLUMN retained INTEGER NOT NULL DEFAULT 0",
  // Each page of work on a rule, and each report of a mount, looks for the matches that are to be set or removed.
  "CREATE INDEX rule_matches_by_state ON rule_matches (rule, generation, applied)",
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
  /** See `freshUntil`. */
  rights_changed: number;
  credentials_end: number | null;
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
  /** `held`: no rule matches any more, and the object stays as it is. */
  wish: "present" | "absent" | "held";
  intent: number;
  seed: string;
  status: SyncStatus;
  error_code: string | null;
  error_message: string | null;
  synced_version: number | null;
  updated: number;
  asked: number;
  naming: number;
  /** Whether a request has set it; rules may want it as well. */
  manual: 0 | 1;
  /** See `traceText`. */
  trace: string | null;
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
  /** 1: its last push succeeded, and the object was left at the provider after the secret was deleted. */
  retained: number;
  /** The failure of a clean-up at the provider; null: none is owed. */
  owed: string | null;
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
