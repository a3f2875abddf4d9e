import type { SyncStatus } from "../contracts/sync-destination.ts";
import type { Trouble } from "../contracts/sync-tasks.ts";

/** Statuses of associations and objects: from a failure, and from several statuses to one. */

const statusOf = {
  client: "CLIENT_SIDE_ERROR",
  external: "EXTERNAL_SERVICE_ERROR",
  unknown: "UNKNOWN",
  internal: "INTERNAL_ERROR",
} as const satisfies Record<string, SyncStatus>;

/** Worst first: the order in which one status is chosen for an association whose objects differ. */
const SEVERITY: readonly SyncStatus[] = [
  "INTERNAL_ERROR",
  "CLIENT_SIDE_ERROR",
  "UNKNOWN",
  "EXTERNAL_SERVICE_ERROR",
  "PENDING",
  "UNSYNCED",
  "SYNCED",
];

/** The status that a failure is shown as. */
export const statusFor = (trouble: Trouble): SyncStatus => statusOf[trouble.outcome];

/** The worst of some statuses; undefined for none. */
export const worst = (statuses: readonly SyncStatus[]): SyncStatus | undefined =>
  SEVERITY.find((status) => statuses.includes(status));
