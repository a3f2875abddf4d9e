import type { SyncStatus } from "../contracts/sync-destination.ts";
import type { Trouble } from "../contracts/sync-tasks.ts";
import { SYNC_STATUSES } from "../wire/sync-status.ts";

/** Statuses of associations and objects: from a failure, and from several statuses to one. */

const statusOf = {
  client: "CLIENT_SIDE_ERROR",
  external: "EXTERNAL_SERVICE_ERROR",
  unknown: "UNKNOWN",
  internal: "INTERNAL_ERROR",
} as const satisfies Record<string, SyncStatus>;

/** The status that a failure is shown as. */
export const statusFor = (trouble: Trouble): SyncStatus => statusOf[trouble.outcome];

/** The worst of some statuses; undefined for none. */
export const worst = (statuses: readonly SyncStatus[]): SyncStatus | undefined =>
  SYNC_STATUSES.find((status) => statuses.includes(status));
