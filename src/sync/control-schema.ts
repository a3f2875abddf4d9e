import { ENDED_NAMESPACES } from "../platform/durable/ended-namespaces.ts";
import type { Migration } from "../platform/durable/migrations.ts";

/** Schema of `SyncControl`: configuration, queue quotas, custom applications, gate leases, targets. */

export const controlMigrations: Migration[] = [
  // The global configuration; no row = the defaults.
  `CREATE TABLE config (
      id INTEGER PRIMARY KEY CHECK (id = 1), disabled INTEGER NOT NULL, queue_capacity INTEGER NOT NULL) STRICT`,
  // The share of the queue that each destination holds and has requested; no row = neither.
  `CREATE TABLE shares (
      destination TEXT PRIMARY KEY, granted INTEGER NOT NULL, wanted INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE total (id INTEGER PRIMARY KEY CHECK (id = 1), granted INTEGER NOT NULL) STRICT;
      INSERT INTO total VALUES (1, 0);
      CREATE TRIGGER share_added AFTER INSERT ON shares BEGIN UPDATE total SET granted = granted + NEW.granted; END;
      CREATE TRIGGER share_ended AFTER DELETE ON shares BEGIN UPDATE total SET granted = granted - OLD.granted; END;
      CREATE TRIGGER share_moved AFTER UPDATE OF granted ON shares
        BEGIN UPDATE total SET granted = granted - OLD.granted + NEW.granted; END`,
  // After a pause: the destination after which the next page to resume begins.
  "CREATE TABLE resuming (id INTEGER PRIMARY KEY CHECK (id = 1), after TEXT NOT NULL) STRICT",
  // Custom applications of the repository host; the private key sealed.
  `CREATE TABLE apps (
      namespace TEXT NOT NULL, name TEXT NOT NULL, app_id TEXT NOT NULL, fingerprint TEXT NOT NULL, private_key BLOB NOT NULL,
      PRIMARY KEY (namespace, name)) STRICT`,
  // Destinations that use an application, which then cannot be deleted.
  `CREATE TABLE app_users (
      namespace TEXT NOT NULL, app TEXT NOT NULL, destination TEXT NOT NULL,
      PRIMARY KEY (namespace, app, destination)) STRICT, WITHOUT ROWID;
      CREATE INDEX app_users_by_destination ON app_users (destination)`,
  // `short` = the number of destinations that request more than they hold: then each gets at most an equal
  // part.
  `ALTER TABLE total ADD COLUMN short INTEGER NOT NULL DEFAULT 0;
      UPDATE total SET short = (SELECT count(*) FROM shares WHERE wanted > granted);
      DROP TRIGGER share_added;
      DROP TRIGGER share_ended;
      DROP TRIGGER share_moved;
      CREATE TRIGGER share_added AFTER INSERT ON shares BEGIN
        UPDATE total SET granted = granted + NEW.granted, short = short + (NEW.wanted > NEW.granted); END;
      CREATE TRIGGER share_ended AFTER DELETE ON shares BEGIN
        UPDATE total SET granted = granted - OLD.granted, short = short - (OLD.wanted > OLD.granted); END;
      CREATE TRIGGER share_moved AFTER UPDATE ON shares BEGIN
        UPDATE total SET granted = granted - OLD.granted + NEW.granted,
          short = short - (OLD.wanted > OLD.granted) + (NEW.wanted > NEW.granted); END`,
  // Until when calls to providers may have been permitted (ms): a pause waits for it.
  "CREATE TABLE permissions (id INTEGER PRIMARY KEY CHECK (id = 1), until INTEGER NOT NULL) STRICT",
  // Destinations that write to the same place; targets are digests.
  `CREATE TABLE targets (
      target TEXT NOT NULL, destination TEXT NOT NULL, PRIMARY KEY (target, destination)) STRICT, WITHOUT ROWID;
      CREATE INDEX targets_by_destination ON targets (destination)`,
  // The identity of an application's namespace; empty in rows older than this column.
  "ALTER TABLE apps ADD COLUMN namespace_id TEXT NOT NULL DEFAULT ''",
  // Identities of deleted namespaces: a request that was admitted before creates nothing in them.
  ENDED_NAMESPACES,
];
