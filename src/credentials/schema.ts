import { namesMigration } from "../listings/name-feed.ts";
import { FACTS } from "../platform/durable/deployment-state.ts";
import type { Migration } from "../platform/durable/migrations.ts";

export const engineMigrations: Migration[] = [
  // The configuration, sealed.
  "CREATE TABLE config (id INTEGER PRIMARY KEY CHECK (id = 1), sealed BLOB NOT NULL) STRICT",
  // Roles as written and as resolved at the provider.
  "CREATE TABLE roles (name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT",
  // Jobs at the provider. The known state is sealed; `lock` names a resource that one job changes at a time;
  // `seq` is the step under way.
  `CREATE TABLE jobs (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, sealed BLOB NOT NULL, token TEXT, repeat TEXT UNIQUE,
      lock TEXT, locked INTEGER NOT NULL DEFAULT 0, deadline INTEGER, seq INTEGER NOT NULL DEFAULT 0,
      tries INTEGER NOT NULL DEFAULT 0,
      failures INTEGER NOT NULL DEFAULT 0, failure TEXT, created INTEGER NOT NULL) STRICT`,
  // Issues for a token that ends are cancelled.
  "CREATE INDEX jobs_by_token ON jobs (token) WHERE token IS NOT NULL",
  // The holder of a lock.
  "CREATE INDEX jobs_by_lock ON jobs (lock) WHERE lock IS NOT NULL",
  // Leases by id; times in ms. `sealed` holds the credentials only for a request that may be repeated.
  `CREATE TABLE leases (
      id TEXT PRIMARY KEY, role TEXT NOT NULL, token TEXT NOT NULL, holding TEXT NOT NULL, issued INTEGER NOT NULL,
      expires INTEGER NOT NULL, key_ends INTEGER NOT NULL, renewed INTEGER, renewable INTEGER NOT NULL,
      state TEXT NOT NULL, failure TEXT, repeat TEXT UNIQUE, sealed BLOB) STRICT`,
  // The next lease to end.
  "CREATE INDEX leases_by_expiry ON leases (state, expires)",
  // Leases of a token that ends.
  "CREATE INDEX leases_by_token ON leases (token, state)",
  // State of the engine: closing, gone, rotation.
  FACTS,
  // Whether a job of a kind is under way, which each change checks.
  "CREATE INDEX jobs_by_kind ON jobs (kind)",
  // A lease whose answer was not delivered by `hand_over_by` (ms) is revoked; NULL: delivered, or the caller
  // repeats the request.
  "ALTER TABLE leases ADD COLUMN hand_over_by INTEGER",
  // Leases with an undelivered answer.
  "CREATE INDEX leases_by_hand_over ON leases (hand_over_by) WHERE hand_over_by IS NOT NULL",
  // Callers of a shared lease by their token; `until` (ms) is the end of a token that is no row, NULL = no limit.
  `CREATE TABLE lease_users (
      lease TEXT NOT NULL, token TEXT NOT NULL, until INTEGER, PRIMARY KEY (lease, token)) STRICT, WITHOUT ROWID;
      CREATE INDEX lease_users_by_token ON lease_users (token)`,
  // Credentials that are kept with static roles, sealed; `due` (ms) is the time of their replacement. Two roles never
  // replace the credentials of one subject.
  `CREATE TABLE kept_credentials (
      role TEXT PRIMARY KEY, subject TEXT NOT NULL UNIQUE, sealed BLOB NOT NULL, due INTEGER NOT NULL,
      failures INTEGER NOT NULL DEFAULT 0) STRICT;
      CREATE INDEX kept_credentials_by_due ON kept_credentials (due)`,
  // Pools of roles; `life`, `ttl` and `due` in ms. `content` identifies the parts of the role that its credentials depend
  // on. `due`: the next change, NULL = full.
  `CREATE TABLE pools (
      role TEXT PRIMARY KEY, size INTEGER NOT NULL, ttl INTEGER NOT NULL, content TEXT NOT NULL, life INTEGER NOT NULL,
      due INTEGER, failures INTEGER NOT NULL DEFAULT 0, failure TEXT) STRICT`,
  // Credentials without a user; times in ms. `restored`: the restore before they were made, empty without one.
  `CREATE TABLE pooled (
      id TEXT PRIMARY KEY, role TEXT NOT NULL, content TEXT NOT NULL, restored TEXT NOT NULL, holding TEXT NOT NULL,
      made INTEGER NOT NULL, until INTEGER NOT NULL, ends INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT;
      CREATE INDEX pooled_by_role ON pooled (role, made)`,
  // Names of roles that are older than the search.
  namesMigration("roles"),
  // Identities that have made something at the provider, sealed, until nothing of theirs is left. That for new calls has the
  // id `account` in `facts`, 0 without one.
  "CREATE TABLE accounts (id INTEGER PRIMARY KEY, sealed BLOB NOT NULL) STRICT",
  // The identity that made what a lease, a job or a role has.
  `ALTER TABLE leases ADD COLUMN account INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE jobs ADD COLUMN account INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE roles ADD COLUMN account INTEGER NOT NULL DEFAULT 0`,
];
