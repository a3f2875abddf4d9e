import type { KvConfig, SecretRow, VersionView } from "../contracts/kv-store.ts";
/** A version as stored. `deletion` in ms: null = lives, past = deleted, future = will be. */
export type VersionRow = {
  path: string;
  version: number;
  created: number;
  deletion: number | null;
  /** null once destroyed. */
  sealed: ArrayBuffer | null;
};

export const DEFAULT_CONFIG: KvConfig = { max_versions: 0, cas_required: false, delete_version_after: 0 };
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

/** RFC 3339 with nanoseconds, UTC, as the clients of this API expect. */
export const timestamp = (ms: number | null): string =>
  ms === null ? "" : new Date(ms).toISOString().replace("Z", "000000Z");

/** Whether the data of a version can be read: neither destroyed nor past its deletion. */
export const lives = (row: Pick<VersionRow, "deletion" | "sealed">, now: number): boolean =>
  row.sealed !== null && (row.deletion === null || row.deletion > now);

/** How many versions a path keeps. */
export const keptVersions = (key: number, mount: number): number => Math.max(key, mount) || DEFAULT_MAX_VERSIONS;

/** When a version made at `created` will be deleted by itself (ms), or null: the shorter of the two settings that are set. */
export function deletionAt(created: number, key: number, mount: number): number | null {
  if (mount < 0) return null;
  const set = [key, mount].filter((seconds) => seconds > 0);
  return set.length === 0 ? null : created + Math.min(...set) * 1000;
}
