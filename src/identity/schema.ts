import type { Migration } from "../platform/durable/migrations.ts";

export const identityMigrations: Migration[] = [
  {
    because:
      "keys of identity tokens; sealed = the private one, NULL once it signs no more; ends = until when the public one is published",
    sql: `CREATE TABLE signing_keys (
      kid TEXT PRIMARY KEY, state TEXT NOT NULL CHECK (state IN ('current', 'next', 'past')), jwk TEXT NOT NULL,
      sealed BLOB, created INTEGER NOT NULL, ends INTEGER,
      CHECK ((state = 'past') = (sealed IS NULL) AND (state = 'past') = (ends IS NOT NULL))) STRICT;
      CREATE UNIQUE INDEX signing_keys_in_use ON signing_keys (state) WHERE state <> 'past';
      CREATE INDEX signing_keys_by_end ON signing_keys (ends) WHERE ends IS NOT NULL`,
  },
  {
    because: "when the keys rotate next; there is none before the first key",
    sql: "CREATE TABLE rotation (id INTEGER PRIMARY KEY CHECK (id = 1), due INTEGER NOT NULL) STRICT",
  },
  {
    because: "the origin of all issuers, once somebody has set it",
    sql: "CREATE TABLE config (id INTEGER PRIMARY KEY CHECK (id = 1), issuer TEXT NOT NULL) STRICT",
  },
];
