import type { KvConfig, MetadataCheck, MetadataSettings, SecretRow } from "../contracts/kv-store.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { changeCustomMetadata } from "../platform/http/custom-metadata.ts";

/** Applies settings to a path's row. @param patch merges custom metadata key by key, and null restores the default */
export function changeSettings(
  row: SecretRow,
  changes: MetadataSettings,
  patch: boolean,
  now: number,
): Result<SecretRow> {
  const custom = changeCustomMetadata(row.custom_metadata, changes.custom_metadata, patch);
  if (!custom.ok) return custom;
  return ok({
    ...row,
    updated: now,
    max_versions: merge(changes.max_versions, row.max_versions, patch, 0),
    cas_required: Number(merge(changes.cas_required, row.cas_required === 1, patch, false)),
    delete_version_after: merge(changes.delete_version_after, row.delete_version_after, patch, 0),
    custom_metadata: custom.value,
    metadata_cas_required: Number(merge(changes.metadata_cas_required, row.metadata_cas_required === 1, patch, false)),
    metadata_version: row.metadata_version + 1,
  });
}

/** Applies settings to the mount's configuration; absent and null mean unchanged. */
export const changeConfig = (config: KvConfig, changes: Omit<MetadataSettings, "custom_metadata">): KvConfig => ({
  max_versions: changes.max_versions ?? config.max_versions,
  cas_required: changes.cas_required ?? config.cas_required,
  // Any negative value disables the feature and is shown as -1s.
  delete_version_after: Math.max(-1, changes.delete_version_after ?? config.delete_version_after),
  metadata_cas_required: changes.metadata_cas_required ?? config.metadata_cas_required,
});

/** Whether a write of metadata names any setting. */
export const namesSetting = (changes: MetadataSettings & MetadataCheck): boolean =>
  Object.entries(changes).some(([name, value]) => name !== "metadata_cas" && value !== undefined);

/** Refuses a write of metadata that does not replace the present version. */
export function checkMetadataVersion(
  row: SecretRow | null,
  { metadata_cas: version }: MetadataCheck,
  config: KvConfig,
): Refusal | null {
  if (version === undefined) {
    const isRequired = config.metadata_cas_required || row?.metadata_cas_required === 1;
    return isRequired ? refuse("invalid", "metadata check-and-set parameter required for this call") : null;
  }
  if (version === (row?.metadata_version ?? 0)) return null;
  return refuse(
    "invalid",
    row
      ? "metadata check-and-set parameter does not match the current version"
      : "metadata_cas must be 0 when creating new metadata",
  );
}

function merge<T>(change: T | null | undefined, before: T, patch: boolean, usual: T): T {
  if (change === undefined) return before;
  return change ?? (patch ? usual : before);
}
