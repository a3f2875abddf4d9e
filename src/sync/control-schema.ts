import type { Migration } from "../platform/durable/migrations.ts";

/** Schema of `SyncControl`: configuration, queue quotas, custom applications, gate leases, targets. */

export const controlMigrations: Migration[] = [
  {
    because: "the global configuration; a missing row is the default",
    sql: `CREATE TABLE config (
      id INTEGER PRIMARY KEY CHECK (id = 1), disabled INTEGER NOT NULL, queue_capacity INTEGER NOT NULL) STRICT`,
  },
  {
    because: "how much of the queue each destination holds, and how much it asked for; one without either has no row",
    sql: `CREATE TABLE shares (
      destination TEXT PRIMARY KEY, granted INTEGER NOT NULL, wanted INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE total (id INTEGER PRIMARY KEY CHECK (id = 1), granted INTEGER NOT NULL) STRICT;
      INSERT INTO total VALUES (1, 0);
      CREATE TRIGGER share_added AFTER INSERT ON shares BEGIN UPDATE total SET granted = granted + NEW.granted; END;
      CREATE TRIGGER share_ended AFTER DELETE ON shares BEGIN UPDATE total SET granted = granted - OLD.granted; END;
      CREATE TRIGGER share_moved AFTER UPDATE OF granted ON shares
        BEGIN UPDATE total SET granted = granted - OLD.granted + NEW.granted; END`,
  },
  {
    because: "syncing goes on after a pause: behind which destination the next page to be woken begins",
    sql: "CREATE TABLE resuming (id INTEGER PRIMARY KEY CHECK (id = 1), after TEXT NOT NULL) STRICT",
  },
  {
    because: "custom applications of the repository host; the private key sealed",
    sql: `CREATE TABLE apps (
      namespace TEXT NOT NULL, name TEXT NOT NULL, app_id TEXT NOT NULL, fingerprint TEXT NOT NULL, private_key BLOB NOT NULL,
      PRIMARY KEY (namespace, name)) STRICT`,
  },
  {
    because: "which destinations use an application, so that it is not deleted under them",
    sql: `CREATE TABLE app_users (
      namespace TEXT NOT NULL, app TEXT NOT NULL, destination TEXT NOT NULL,
      PRIMARY KEY (namespace, app, destination)) STRICT, WITHOUT ROWID;
      CREATE INDEX app_users_by_destination ON app_users (destination)`,
  },
  {
    because:
      "short = how many destinations want more of the queue than they hold: then nobody takes more than an equal part",
    sql: `ALTER TABLE total ADD COLUMN short INTEGER NOT NULL DEFAULT 0;
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
  },
  {
    because: "until when calls to providers may at most have been permitted (ms): what a pause has to wait out",
    sql: "CREATE TABLE permissions (id INTEGER PRIMARY KEY CHECK (id = 1), until INTEGER NOT NULL) STRICT",
  },
  {
    because: "destinations that write to the same place find each other; targets are digests",
    sql: `CREATE TABLE targets (
      target TEXT NOT NULL, destination TEXT NOT NULL, PRIMARY KEY (target, destination)) STRICT, WITHOUT ROWID;
      CREATE INDEX targets_by_destination ON targets (destination)`,
  },
  {
    because: "the identity of an application's namespace; empty in rows that are older than this column",
    sql: "ALTER TABLE apps ADD COLUMN namespace_id TEXT NOT NULL DEFAULT ''",
  },
  {
    because: "identities of namespaces that were deleted: a request that was let in before creates nothing in them",
    sql: "CREATE TABLE ended_namespaces (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID",
  },
];
