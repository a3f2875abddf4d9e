import type { Migration } from "../platform/durable/migrations.ts";

export const identityMigrations: Migration[] = [
  // Keys of identity tokens. `sealed` is the private key, NULL once it no longer signs; `ends` is until when
  // the public key is published.
  `CREATE TABLE signing_keys (
      kid TEXT PRIMARY KEY, state TEXT NOT NULL CHECK (state IN ('current', 'next', 'past')), jwk TEXT NOT NULL,
      sealed BLOB, created INTEGER NOT NULL, ends INTEGER,
      CHECK ((state = 'past') = (sealed IS NULL) AND (state = 'past') = (ends IS NOT NULL))) STRICT;
      CREATE UNIQUE INDEX signing_keys_in_use ON signing_keys (state) WHERE state <> 'past';
      CREATE INDEX signing_keys_by_end ON signing_keys (ends) WHERE ends IS NOT NULL`,
  // The next rotation of the keys; no row before the first key.
  "CREATE TABLE rotation (id INTEGER PRIMARY KEY CHECK (id = 1), due INTEGER NOT NULL) STRICT",
  // The origin of all issuers, once configured.
  "CREATE TABLE config (id INTEGER PRIMARY KEY CHECK (id = 1), issuer TEXT NOT NULL) STRICT",
];
