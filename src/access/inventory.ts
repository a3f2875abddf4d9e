import type { Source } from "../platform/durable/object-inventory.ts";

/** The objects on record in `AccessControl`, for snapshots and restores. */
export const INVENTORY: readonly Source[] = [
  { kind: "kv-store", from: "SELECT uuid AS name FROM mounts WHERE type = 'kv'" },
  { kind: "kv-store", from: "SELECT uuid AS name FROM ended_mounts WHERE type = 'kv'" },
  { kind: "credential-engine", from: "SELECT uuid AS name FROM mounts WHERE type != 'kv'" },
  { kind: "credential-engine", from: "SELECT uuid AS name FROM ended_mounts WHERE type != 'kv'" },
  { kind: "sync-destination", from: "SELECT name FROM key_holders WHERE kind = 'sync-destination'" },
  { kind: "event-subscription", from: "SELECT name FROM key_holders WHERE kind = 'event-subscription'" },
  { kind: "node-session", from: "SELECT name FROM key_holders WHERE kind = 'node-session'" },
];
