import { FACTS } from "../platform/durable/deployment-state.ts";
import type { Migration } from "../platform/durable/migrations.ts";

export const accessMigrations: Migration[] = [
  // Tokens by a keyed hash; the token itself is not stored. Times in ms, TTLs in seconds; `expires` NULL =
  // never.
  `CREATE TABLE tokens (
      hash TEXT PRIMARY KEY, accessor TEXT NOT NULL UNIQUE, parent TEXT, namespace TEXT NOT NULL, policies TEXT NOT NULL,
      name TEXT NOT NULL, meta TEXT, path TEXT NOT NULL, family TEXT NOT NULL, global INTEGER NOT NULL DEFAULT 0,
      created INTEGER NOT NULL, expires INTEGER, renewed INTEGER, ttl INTEGER NOT NULL, explicit_max_ttl INTEGER NOT NULL,
      period INTEGER NOT NULL, uses INTEGER NOT NULL, orphan INTEGER NOT NULL, renewable INTEGER NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT`,
  // Revoke a token with its children.
  "CREATE INDEX tokens_by_parent ON tokens (parent)",
  // The next token to expire.
  "CREATE INDEX tokens_by_expiry ON tokens (expires)",
  // Policies as written and as parsed; the written text is authoritative.
  `CREATE TABLE policies (
      namespace TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, parsed TEXT NOT NULL, description TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER, PRIMARY KEY (namespace, name)) STRICT`,
  // Namespaces of secrets, sync and credentials: a tree; paths end with a slash.
  `CREATE TABLE namespaces (
      path TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, custom_metadata TEXT NOT NULL, created INTEGER NOT NULL) STRICT`,
  // Namespaces of events and volumes: a flat list.
  `CREATE TABLE cluster_namespaces (
      name TEXT PRIMARY KEY, description TEXT NOT NULL, meta TEXT, create_index INTEGER, modify_index INTEGER) STRICT`,
  // The namespace that always exists.
  "INSERT INTO cluster_namespaces VALUES ('default', 'Default shared namespace', NULL, 1, 1)",
  // The mount table; `uuid` names the object with the data of the mount.
  `CREATE TABLE mounts (
      namespace TEXT NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, accessor TEXT NOT NULL UNIQUE,
      uuid TEXT NOT NULL UNIQUE, description TEXT NOT NULL, options TEXT NOT NULL, config TEXT NOT NULL,
      created INTEGER NOT NULL, PRIMARY KEY (namespace, path)) STRICT`,
  // State of the deployment: cluster id, bootstrap, term of the key.
  FACTS,
  // The key of the token hashes, sealed.
  "CREATE TABLE sealed (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT",
  // Objects other than mounts with data keys, for rotations.
  "CREATE TABLE key_holders (kind TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (kind, name)) STRICT",
  // Mounts in which a token may have leases, which end with it.
  "CREATE TABLE lease_holders (token TEXT NOT NULL, mount TEXT NOT NULL, PRIMARY KEY (token, mount)) STRICT",
  // Policies with volume rules, which judge every volume, apart from the others.
  "CREATE INDEX policies_with_volume_rules ON policies (name) WHERE json_extract(parsed, '$.volumeRules') IS NOT NULL",
  // Objects of deleted mounts, which may still have external objects to remove and belong in snapshots.
  "CREATE TABLE ended_mounts (uuid TEXT PRIMARY KEY, type TEXT NOT NULL) STRICT",
  // Such a row is deleted once the object is empty; `look` is the next check, in ms.
  `ALTER TABLE ended_mounts ADD COLUMN look INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX ended_mounts_by_look ON ended_mounts (look)`,
  // The identity of a flat namespace, which a later namespace of the same name does not share.
  `ALTER TABLE cluster_namespaces ADD COLUMN id TEXT NOT NULL DEFAULT '';
      UPDATE cluster_namespaces SET id = lower(hex(randomblob(16)))`,
  // Deletions of namespaces under way, until the owners of their content have answered; `due` in ms.
  `CREATE TABLE ending_namespaces (
      kind TEXT NOT NULL, name TEXT NOT NULL, due INTEGER NOT NULL, PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID`,
  // The secret of a token made under /v1/acl, sealed, for clients that read it back; NULL = not kept.
  "ALTER TABLE tokens ADD COLUMN secret BLOB",
  // The job that an ACL policy is attached to, as JSON, returned by reads.
  "ALTER TABLE policies ADD COLUMN job_acl TEXT",
  // Settings of a flat namespace for jobs, as JSON, returned by reads.
  "ALTER TABLE cluster_namespaces ADD COLUMN job_settings TEXT",
  // Auth mounts; `uuid` names the entries and tokens of a mount, `accessor` its aliases.
  `CREATE TABLE auth_mounts (
      namespace TEXT NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, accessor TEXT NOT NULL UNIQUE,
      uuid TEXT NOT NULL UNIQUE, description TEXT NOT NULL, options TEXT NOT NULL, config TEXT NOT NULL,
      created INTEGER NOT NULL, PRIMARY KEY (namespace, path)) STRICT`,
  // Configuration, roles and users of auth mounts, each sealed.
  `CREATE TABLE auth_entries (
      mount TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
      PRIMARY KEY (mount, kind, name)) STRICT`,
  // Columns of tokens of logins: maximum TTL of the role in seconds, entity, mount, and role or user.
  `ALTER TABLE tokens ADD COLUMN max_ttl INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE tokens ADD COLUMN entity_id TEXT NOT NULL DEFAULT '';
      ALTER TABLE tokens ADD COLUMN auth_mount TEXT;
      ALTER TABLE tokens ADD COLUMN auth_entry TEXT;
      CREATE INDEX tokens_by_auth_mount ON tokens (auth_mount) WHERE auth_mount IS NOT NULL`,
  // Networks from which a token may be used, as JSON; NULL = all.
  "ALTER TABLE tokens ADD COLUMN bound_cidrs TEXT",
  // Entities: the people and machines that log in; times in ms.
  `CREATE TABLE entities (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, policies TEXT NOT NULL, metadata TEXT NOT NULL,
      disabled INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (namespace, name)) STRICT`,
  // Aliases: the name of an entity at an auth mount, by the accessor of the mount.
  `CREATE TABLE entity_aliases (
      id TEXT PRIMARY KEY, entity TEXT NOT NULL, mount TEXT NOT NULL, name TEXT NOT NULL, metadata TEXT NOT NULL,
      custom_metadata TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (mount, name)) STRICT;
      CREATE INDEX entity_aliases_by_entity ON entity_aliases (entity)`,
  // Groups of entities and groups; the members of an external group follow the logins of its alias.
  `CREATE TABLE groups (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, policies TEXT NOT NULL,
      metadata TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (namespace, name)) STRICT;
      CREATE TABLE group_members (
      group_id TEXT NOT NULL, kind TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (group_id, kind, member)) STRICT;
      CREATE INDEX group_members_by_member ON group_members (kind, member);
      CREATE TABLE group_aliases (
      id TEXT PRIMARY KEY, group_id TEXT NOT NULL UNIQUE, mount TEXT NOT NULL, name TEXT NOT NULL,
      created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (mount, name)) STRICT`,
  // The cubbyhole of each token, sealed; `bytes` = path and value before sealing.
  `CREATE TABLE cubbyholes (
      token TEXT NOT NULL, namespace TEXT NOT NULL, path TEXT NOT NULL, value BLOB NOT NULL, bytes INTEGER NOT NULL,
      PRIMARY KEY (token, namespace, path)) STRICT`,
  // Former paths of mounts: ids of leases contain the path at which they were issued; `moved` in ms.
  `CREATE TABLE former_paths (
      namespace TEXT NOT NULL, path TEXT NOT NULL, uuid TEXT NOT NULL, moved INTEGER NOT NULL,
      PRIMARY KEY (namespace, path, uuid)) STRICT, WITHOUT ROWID`,
  // Moves of mounts, with the result that clients read; `at` in ms.
  `CREATE TABLE remounts (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, at INTEGER NOT NULL) STRICT`,
  // Roles of auth/token, as JSON; `role` of a token = the one that it was created with, in the token's
  // namespace.
  `CREATE TABLE token_roles (
      namespace TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (namespace, name)) STRICT;
      ALTER TABLE tokens ADD COLUMN role TEXT`,
  // Wrapped answers, sealed, by the accessor of their token; `wrapped` = the accessor of a token inside.
  // `bytes` stands before `body`, so that sums do not read bodies.
  `CREATE TABLE wrapped_answers (
      token TEXT PRIMARY KEY, bytes INTEGER NOT NULL, wrapped TEXT NOT NULL, body BLOB NOT NULL) STRICT`,
  // Bounds the number of unopened answers of one token; `asker` = its accessor.
  `ALTER TABLE wrapped_answers ADD COLUMN asker TEXT;
      CREATE INDEX wrapped_answers_by_asker ON wrapped_answers (asker) WHERE asker IS NOT NULL`,
  // Roles of the cluster API, policies as JSON; `tokens.roles` = the ids that a token names, NULL = none.
  `CREATE TABLE cluster_roles (
      id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL, policies TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT;
      ALTER TABLE tokens ADD COLUMN roles TEXT`,
  // Auth methods of the cluster API, settings sealed, and their binding rules as JSON.
  `CREATE TABLE cluster_auth_methods (
      name TEXT PRIMARY KEY, type TEXT NOT NULL, is_default INTEGER NOT NULL, hash TEXT NOT NULL, value BLOB NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT;
      CREATE TABLE binding_rules (
      id TEXT PRIMARY KEY, auth_method TEXT NOT NULL, value TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT;
      CREATE INDEX binding_rules_by_method ON binding_rules (auth_method)`,
  // One-time tokens: the keyed hash of the secret and, sealed, the token that it is exchanged for; `expires`
  // in ms.
  `CREATE TABLE one_time_tokens (
      accessor TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, expires INTEGER NOT NULL, token BLOB NOT NULL) STRICT;
      CREATE INDEX one_time_tokens_by_expiry ON one_time_tokens (expires)`,
  // AppRole roles: `role_id` = the keyed hash of the role id, `bound` = whether logins need a secret id.
  // Secret ids by keyed hash, properties sealed, `uses` left (0 = any number), times in ms (`expires` NULL =
  // never).
  `CREATE TABLE approles (
      mount TEXT NOT NULL, role TEXT NOT NULL, role_id TEXT NOT NULL, bound INTEGER NOT NULL,
      PRIMARY KEY (mount, role), UNIQUE (mount, role_id)) STRICT;
      CREATE TABLE approle_secret_ids (
      mount TEXT NOT NULL, role TEXT NOT NULL, hash TEXT NOT NULL, accessor TEXT NOT NULL, uses INTEGER NOT NULL,
      expires INTEGER, updated INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (mount, role, hash)) STRICT;
      CREATE UNIQUE INDEX approle_secret_ids_by_accessor ON approle_secret_ids (mount, role, accessor);
      CREATE INDEX approle_secret_ids_by_expiry ON approle_secret_ids (expires) WHERE expires IS NOT NULL`,
  // States of successful browser logins, so that none is used twice; `expires` in ms.
  `CREATE TABLE used_login_states (
      mount TEXT NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (mount, id)) STRICT;
      CREATE INDEX used_login_states_by_expiry ON used_login_states (expires)`,
  // Merged entities, so that their tokens lead to the remaining one; `merged_from` = the former entities of
  // an alias, as JSON.
  `CREATE TABLE merged_entities (id TEXT PRIMARY KEY, entity TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE INDEX merged_entities_by_entity ON merged_entities (entity);
      ALTER TABLE entity_aliases ADD COLUMN merged_from TEXT NOT NULL DEFAULT '[]'`,
  // The table is its own index by hash, which saves a row for each token; orphans and tokens without an expiry save
  // one more each.
  `CREATE TABLE tokens_by_hash (
      hash TEXT PRIMARY KEY, accessor TEXT NOT NULL UNIQUE, parent TEXT, namespace TEXT NOT NULL, policies TEXT NOT NULL,
      name TEXT NOT NULL, meta TEXT, path TEXT NOT NULL, family TEXT NOT NULL, global INTEGER NOT NULL DEFAULT 0,
      created INTEGER NOT NULL, expires INTEGER, renewed INTEGER, ttl INTEGER NOT NULL, explicit_max_ttl INTEGER NOT NULL,
      period INTEGER NOT NULL, uses INTEGER NOT NULL, orphan INTEGER NOT NULL, renewable INTEGER NOT NULL,
      create_index INTEGER, modify_index INTEGER, secret BLOB, max_ttl INTEGER NOT NULL DEFAULT 0,
      entity_id TEXT NOT NULL DEFAULT '', auth_mount TEXT, auth_entry TEXT, bound_cidrs TEXT, role TEXT, roles TEXT)
      STRICT, WITHOUT ROWID;
      INSERT INTO tokens_by_hash (
        hash, accessor, parent, namespace, policies, name, meta, path, family, global, created, expires, renewed, ttl,
        explicit_max_ttl, period, uses, orphan, renewable, create_index, modify_index, secret, max_ttl, entity_id,
        auth_mount, auth_entry, bound_cidrs, role, roles)
      SELECT hash, accessor, parent, namespace, policies, name, meta, path, family, global, created, expires, renewed, ttl,
        explicit_max_ttl, period, uses, orphan, renewable, create_index, modify_index, secret, max_ttl, entity_id,
        auth_mount, auth_entry, bound_cidrs, role, roles FROM tokens;
      DROP TABLE tokens;
      ALTER TABLE tokens_by_hash RENAME TO tokens;
      CREATE INDEX tokens_by_parent ON tokens (parent) WHERE parent IS NOT NULL;
      CREATE INDEX tokens_by_expiry ON tokens (expires) WHERE expires IS NOT NULL;
      CREATE INDEX tokens_by_auth_mount ON tokens (auth_mount) WHERE auth_mount IS NOT NULL`,
  // Names of entities, groups and aliases are compared without letter case; older rows may differ in nothing else.
  `CREATE INDEX entities_by_name ON entities (namespace, name COLLATE NOCASE);
      CREATE INDEX groups_by_name ON groups (namespace, name COLLATE NOCASE);
      CREATE INDEX entity_aliases_by_name ON entity_aliases (mount, name COLLATE NOCASE);
      CREATE INDEX group_aliases_by_name ON group_aliases (mount, name COLLATE NOCASE)`,
  // Of an alias: `role_metadata` = `alias_metadata` of the role or user of its last login, as JSON; its id at an external
  // provider, and that provider.
  `ALTER TABLE entity_aliases ADD COLUMN role_metadata TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE entity_aliases ADD COLUMN external_id TEXT NOT NULL DEFAULT '';
      ALTER TABLE entity_aliases ADD COLUMN issuer TEXT NOT NULL DEFAULT ''`,
  // Settings of the built-in method of tokens, as JSON, of namespaces that have tuned it.
  `CREATE TABLE token_methods (namespace TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID`,
];
