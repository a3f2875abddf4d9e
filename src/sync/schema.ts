import type { Migration } from "../objects/migrations.ts";
import type { SyncStatus } from "./association.ts";

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
];

export interface DestinationRow extends Record<string, SqlStorageValue> {
  namespace: string;
  type: string;
  name: string;
  granularity: string;
  template: string;
  custom_tags: string;
  connection: ArrayBuffer;
  created: number;
  updated: number;
}

export interface AssociationRow extends Record<string, SqlStorageValue> {
  id: string;
  mount_uuid: string;
  mount_accessor: string;
  mount_path: string;
  secret_name: string;
  wish: "present" | "absent";
  intent: number;
  seed: string;
  external_name: string;
  stale_names: string;
  tag_keys: string;
  known: number;
  status: SyncStatus;
  error_code: string | null;
  error_message: string | null;
  synced_version: number | null;
  updated: number;
}
