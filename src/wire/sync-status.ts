/**
 * The sync status of an object, in Vault's words; `INTERNAL_ERROR` is added for failures of this service. Worst first: the
 * order in which one status is chosen for an association whose objects differ.
 */
export const SYNC_STATUSES = [
  "INTERNAL_ERROR",
  "CLIENT_SIDE_ERROR",
  "UNKNOWN",
  "EXTERNAL_SERVICE_ERROR",
  "PENDING",
  "UNSYNCED",
  "SYNCED",
] as const;
