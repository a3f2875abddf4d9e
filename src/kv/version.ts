import type { Actor, Attribution, KvConfig, SecretRow, VersionView } from "../contracts/kv-store.ts";
import { isPlainObject } from "../lib/json.ts";

/**
 * Rows and views of secrets and versions, with the rules of their lifetime. Pure.
 *
 *            deletion time reached, or delete
 *   living ----------------------------------> deleted
 *      |    <---------------------------------    |
 *      |                undelete                  |
 *      +-------------> destroyed <----------------+     (final: the data is gone)
 */

/** A version as stored. `deletion` in ms: null = never, past = deleted, future = scheduled. */
export type VersionRow = {
  path: string;
  version: number;
  created: number;
  deletion: number | null;
  /** null once destroyed. */
  sealed: ArrayBuffer | null;
  /** JSON text of `Attribution`; null for an unknown caller. */
  created_by: string | null;
};

export const DEFAULT_CONFIG: KvConfig = {
  max_versions: 0,
  cas_required: false,
  delete_version_after: 0,
  metadata_cas_required: false,
};
const DEFAULT_MAX_VERSIONS = 10;

/** A path before its first version. */
export const emptySecret = (path: string, now: number): SecretRow => ({
  path,
  created: now,
  updated: now,
  current_version: 0,
  oldest_version: 0,
  max_versions: 0,
  cas_required: 0,
  delete_version_after: 0,
  custom_metadata: null,
  metadata_cas_required: 0,
  metadata_version: 0,
});

export const versionView = (
  version: Pick<VersionRow, "version" | "created" | "deletion"> & { readonly sealed: object | null },
  customMetadata: string | null,
): VersionView => ({
  created_time: timestamp(version.created),
  custom_metadata: customMetadata === null ? null : (JSON.parse(customMetadata) as Record<string, string>),
  deletion_time: timestamp(version.deletion),
  destroyed: version.sealed === null,
  version: version.version,
});

/** RFC 3339 with nanoseconds, UTC, as in Vault's API; empty for null. */
export const timestamp = (ms: number | null): string =>
  ms === null ? "" : new Date(ms).toISOString().replace("Z", "000000Z");

/** Whether the data of a version can be read: neither destroyed nor past its deletion. */
export const lives = (row: Pick<VersionRow, "deletion" | "sealed">, now: number): boolean =>
  row.sealed !== null && (row.deletion === null || row.deletion > now);

/** The number of versions that a path retains. */
export const keptVersions = (key: number, mount: number): number => Math.max(key, mount) || DEFAULT_MAX_VERSIONS;

/** The scheduled deletion (ms) of a version created at `created`: the shorter of the two settings; null for none. */
export function deletionAt(created: number, key: number, mount: number): number | null {
  if (mount < 0) return null;
  const set = [key, mount].filter((seconds) => seconds > 0);
  return set.length === 0 ? null : created + Math.min(...set) * 1000;
}

/** The stored form of an attribution; null for an unknown caller. */
export function attribution(by: Actor | undefined, operation: Attribution["operation"]): string | null {
  if (by === undefined) return null;
  const { actor, entity_id } = by;
  return JSON.stringify({ actor, operation, entity_id, client_id: entity_id } satisfies Attribution);
}

/** A secret's keys without its values: every leaf and empty object is null. @param depth 0 = unlimited */
export function subkeys(data: Readonly<Record<string, unknown>>, depth: number): Record<string, unknown> {
  const entries = Object.entries(data).map(([key, value]): [string, unknown] => {
    const walks = depth !== 1 && isPlainObject(value) && Object.keys(value).length > 0;
    return [key, walks ? subkeys(value, Math.max(0, depth - 1)) : null];
  });
  // Object.fromEntries defines properties, so a key named __proto__ stays an ordinary key.
  return Object.fromEntries(entries);
}
