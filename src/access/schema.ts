import type { Migration } from "../platform/durable/migrations.ts";

export const accessMigrations: Migration[] = [
  {
    because:
      "tokens, found by a keyed hash; the token itself is never stored. Times in ms, TTLs in seconds, expires NULL = never",
    sql: `CREATE TABLE tokens (
      hash TEXT PRIMARY KEY, accessor TEXT NOT NULL UNIQUE, parent TEXT, namespace TEXT NOT NULL, policies TEXT NOT NULL,
      name TEXT NOT NULL, meta TEXT, path TEXT NOT NULL, family TEXT NOT NULL, global INTEGER NOT NULL DEFAULT 0,
      created INTEGER NOT NULL, expires INTEGER, renewed INTEGER, ttl INTEGER NOT NULL, explicit_max_ttl INTEGER NOT NULL,
      period INTEGER NOT NULL, uses INTEGER NOT NULL, orphan INTEGER NOT NULL, renewable INTEGER NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  { because: "revoke a token with its children", sql: "CREATE INDEX tokens_by_parent ON tokens (parent)" },
  { because: "find the next token to expire", sql: "CREATE INDEX tokens_by_expiry ON tokens (expires)" },
  {
    because: "policies as written and as read; the written text is the truth",
    sql: `CREATE TABLE policies (
      namespace TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, parsed TEXT NOT NULL, description TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER, PRIMARY KEY (namespace, name)) STRICT`,
  },
  {
    because: "namespaces of secrets, sync and credentials: a tree, path with a trailing slash",
    sql: `CREATE TABLE namespaces (
      path TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, custom_metadata TEXT NOT NULL, created INTEGER NOT NULL) STRICT`,
  },
  {
    because: "namespaces of events and volumes: flat",
    sql: `CREATE TABLE cluster_namespaces (
      name TEXT PRIMARY KEY, description TEXT NOT NULL, meta TEXT, create_index INTEGER, modify_index INTEGER) STRICT`,
  },
  {
    because: "the namespace that always exists",
    sql: "INSERT INTO cluster_namespaces VALUES ('default', 'Default shared namespace', NULL, 1, 1)",
  },
  {
    because: "the mount table; uuid names the object that holds the mount's data",
    sql: `CREATE TABLE mounts (
      namespace TEXT NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, accessor TEXT NOT NULL UNIQUE,
      uuid TEXT NOT NULL UNIQUE, description TEXT NOT NULL, options TEXT NOT NULL, config TEXT NOT NULL,
      created INTEGER NOT NULL, PRIMARY KEY (namespace, path)) STRICT`,
  },
  {
    because: "facts of the deployment: cluster id, bootstrap, key term",
    sql: "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
  },
  {
    because: "the key of the token hashes, sealed",
    sql: "CREATE TABLE sealed (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT",
  },
  {
    because: "objects beside the mounts that hold data keys, so that a rotation reaches them",
    sql: "CREATE TABLE key_holders (kind TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (kind, name)) STRICT",
  },
  {
    because: "the mounts in which a token may have leases, which end with it",
    sql: "CREATE TABLE lease_holders (token TEXT NOT NULL, mount TEXT NOT NULL, PRIMARY KEY (token, mount)) STRICT",
  },
  {
    because: "every volume is judged by the policies that hold volume rules, however many others there are",
    sql: "CREATE INDEX policies_with_volume_rules ON policies (name) WHERE json_extract(parsed, '$.volumeRules') IS NOT NULL",
  },
  {
    because: "objects of mounts that are gone, which may have something to take away still: no snapshot must miss them",
    sql: "CREATE TABLE ended_mounts (uuid TEXT PRIMARY KEY, type TEXT NOT NULL) STRICT",
  },
  {
    because: "such a mount is forgotten once its object holds nothing; look = when to look at that next, ms",
    sql: `ALTER TABLE ended_mounts ADD COLUMN look INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX ended_mounts_by_look ON ended_mounts (look)`,
  },
  {
    because: "a flat namespace has an identity, which no later namespace of its name has",
    sql: `ALTER TABLE cluster_namespaces ADD COLUMN id TEXT NOT NULL DEFAULT '';
      UPDATE cluster_namespaces SET id = lower(hex(randomblob(16)))`,
  },
  {
    because: "deletions of namespaces under way, kept until the owners of their content have answered; due in ms",
    sql: `CREATE TABLE ending_namespaces (
      kind TEXT NOT NULL, name TEXT NOT NULL, due INTEGER NOT NULL, PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID`,
  },
  {
    because: "the secret of a token made under /v1/acl, sealed, for clients that read it back; NULL = not kept",
    sql: "ALTER TABLE tokens ADD COLUMN secret BLOB",
  },
  {
    because: "the job that an ACL policy is attached to, as JSON; kept for clients that read it back",
    sql: "ALTER TABLE policies ADD COLUMN job_acl TEXT",
  },
  {
    because: "settings of a flat namespace that govern jobs, as JSON; kept for clients that read them back",
    sql: "ALTER TABLE cluster_namespaces ADD COLUMN job_settings TEXT",
  },
  {
    because: "auth mounts; uuid names the entries and the tokens of a mount, accessor its aliases",
    sql: `CREATE TABLE auth_mounts (
      namespace TEXT NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, accessor TEXT NOT NULL UNIQUE,
      uuid TEXT NOT NULL UNIQUE, description TEXT NOT NULL, options TEXT NOT NULL, config TEXT NOT NULL,
      created INTEGER NOT NULL, PRIMARY KEY (namespace, path)) STRICT`,
  },
  {
    because: "configuration, roles and users of auth mounts, each sealed",
    sql: `CREATE TABLE auth_entries (
      mount TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
      PRIMARY KEY (mount, kind, name)) STRICT`,
  },
  {
    because: "tokens of logins: the maximum TTL of the role in seconds, the entity, the mount and the role or user",
    sql: `ALTER TABLE tokens ADD COLUMN max_ttl INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE tokens ADD COLUMN entity_id TEXT NOT NULL DEFAULT '';
      ALTER TABLE tokens ADD COLUMN auth_mount TEXT;
      ALTER TABLE tokens ADD COLUMN auth_entry TEXT;
      CREATE INDEX tokens_by_auth_mount ON tokens (auth_mount) WHERE auth_mount IS NOT NULL`,
  },
  {
    because: "networks that a token may be used from, as JSON; NULL = all",
    sql: "ALTER TABLE tokens ADD COLUMN bound_cidrs TEXT",
  },
  {
    because: "entities: the people and machines behind logins; times in ms",
    sql: `CREATE TABLE entities (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, policies TEXT NOT NULL, metadata TEXT NOT NULL,
      disabled INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (namespace, name)) STRICT`,
  },
  {
    because: "aliases: the name of an entity at an auth mount, which its accessor names",
    sql: `CREATE TABLE entity_aliases (
      id TEXT PRIMARY KEY, entity TEXT NOT NULL, mount TEXT NOT NULL, name TEXT NOT NULL, metadata TEXT NOT NULL,
      custom_metadata TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (mount, name)) STRICT;
      CREATE INDEX entity_aliases_by_entity ON entity_aliases (entity)`,
  },
  {
    because: "groups of entities and groups; the members of an external group follow the logins of its alias",
    sql: `CREATE TABLE groups (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, policies TEXT NOT NULL,
      metadata TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (namespace, name)) STRICT;
      CREATE TABLE group_members (
      group_id TEXT NOT NULL, kind TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (group_id, kind, member)) STRICT;
      CREATE INDEX group_members_by_member ON group_members (kind, member);
      CREATE TABLE group_aliases (
      id TEXT PRIMARY KEY, group_id TEXT NOT NULL UNIQUE, mount TEXT NOT NULL, name TEXT NOT NULL,
      created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE (mount, name)) STRICT`,
  },
  {
    because: "the private storage of each token, sealed; bytes = path and value before sealing",
    sql: `CREATE TABLE cubbyholes (
      token TEXT NOT NULL, namespace TEXT NOT NULL, path TEXT NOT NULL, value BLOB NOT NULL, bytes INTEGER NOT NULL,
      PRIMARY KEY (token, namespace, path)) STRICT`,
  },
  {
    because: "the paths that a mount had: ids of leases hold the path at which they were issued; moved in ms",
    sql: `CREATE TABLE former_paths (
      namespace TEXT NOT NULL, path TEXT NOT NULL, uuid TEXT NOT NULL, moved INTEGER NOT NULL,
      PRIMARY KEY (namespace, path, uuid)) STRICT, WITHOUT ROWID`,
  },
  {
    because: "the moves of mounts, whose results clients read; at in ms",
    sql: `CREATE TABLE remounts (
      id TEXT PRIMARY KEY, namespace TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, at INTEGER NOT NULL) STRICT`,
  },
  {
    because: "roles of auth/token, as JSON; role = the role that a token was made with, in the token's namespace",
    sql: `CREATE TABLE token_roles (
      namespace TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (namespace, name)) STRICT;
      ALTER TABLE tokens ADD COLUMN role TEXT`,
  },
  {
    because:
      "wrapped answers, sealed, by the accessor of their token; wrapped = the accessor of a token in it; bytes before the body, so that sums do not read bodies",
    sql: `CREATE TABLE wrapped_answers (
      token TEXT PRIMARY KEY, bytes INTEGER NOT NULL, wrapped TEXT NOT NULL, body BLOB NOT NULL) STRICT`,
  },
  {
    because: "the number of wrapped answers that one token may leave waiting is bounded; asker = its accessor",
    sql: `ALTER TABLE wrapped_answers ADD COLUMN asker TEXT;
      CREATE INDEX wrapped_answers_by_asker ON wrapped_answers (asker) WHERE asker IS NOT NULL`,
  },
  {
    because: "roles of the cluster API, policies as JSON; tokens.roles = the ids that a token names, NULL = none",
    sql: `CREATE TABLE cluster_roles (
      id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL, policies TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT;
      ALTER TABLE tokens ADD COLUMN roles TEXT`,
  },
  {
    because: "auth methods of the cluster API, settings sealed, and their binding rules as JSON",
    sql: `CREATE TABLE cluster_auth_methods (
      name TEXT PRIMARY KEY, type TEXT NOT NULL, is_default INTEGER NOT NULL, hash TEXT NOT NULL, value BLOB NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT;
      CREATE TABLE binding_rules (
      id TEXT PRIMARY KEY, auth_method TEXT NOT NULL, value TEXT NOT NULL,
      create_index INTEGER, modify_index INTEGER) STRICT;
      CREATE INDEX binding_rules_by_method ON binding_rules (auth_method)`,
  },
  {
    because:
      "one-time tokens: the keyed hash of the secret, and the token that it is exchanged for, sealed; expires in ms",
    sql: `CREATE TABLE one_time_tokens (
      accessor TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, expires INTEGER NOT NULL, token BLOB NOT NULL) STRICT;
      CREATE INDEX one_time_tokens_by_expiry ON one_time_tokens (expires)`,
  },
  {
    because:
      "roles of approle: role_id = the keyed hash of the role id, bound = whether logins need a secret id; secret ids as keyed hashes, what is known of each sealed, uses left (0 = any number), times in ms (expires NULL = never)",
    sql: `CREATE TABLE approles (
      mount TEXT NOT NULL, role TEXT NOT NULL, role_id TEXT NOT NULL, bound INTEGER NOT NULL,
      PRIMARY KEY (mount, role), UNIQUE (mount, role_id)) STRICT;
      CREATE TABLE approle_secret_ids (
      mount TEXT NOT NULL, role TEXT NOT NULL, hash TEXT NOT NULL, accessor TEXT NOT NULL, uses INTEGER NOT NULL,
      expires INTEGER, updated INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (mount, role, hash)) STRICT;
      CREATE UNIQUE INDEX approle_secret_ids_by_accessor ON approle_secret_ids (mount, role, accessor);
      CREATE INDEX approle_secret_ids_by_expiry ON approle_secret_ids (expires) WHERE expires IS NOT NULL`,
  },
  {
    because: "states of logins in a browser that succeeded, so that none is used twice; expires in ms",
    sql: `CREATE TABLE used_login_states (
      mount TEXT NOT NULL, id TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (mount, id)) STRICT;
      CREATE INDEX used_login_states_by_expiry ON used_login_states (expires)`,
  },
  {
    because:
      "entities that were merged into another one, so that their tokens lead to it; merged_from = the entities that had an alias before, as JSON",
    sql: `CREATE TABLE merged_entities (id TEXT PRIMARY KEY, entity TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE INDEX merged_entities_by_entity ON merged_entities (entity);
      ALTER TABLE entity_aliases ADD COLUMN merged_from TEXT NOT NULL DEFAULT '[]'`,
  },
  {
    because:
      "a token costs a row less when the table is its own index by hash; orphans, and tokens for ever, one less each",
    sql: `CREATE TABLE tokens_by_hash (
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
  },
];
