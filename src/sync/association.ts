import type { SyncStatus } from "../contracts/sync-destination.ts";
import type { ObjectResult, SecretRef, SyncResult, Trouble } from "../contracts/sync-tasks.ts";
import type { WorkOutcome } from "../platform/durable/lease.ts";

/**
 * Data types of secret sync: secrets, associations, tasks and their results. `Setup`, `PollAnswer`, `SyncTask` and
 * `SyncResult` cross RPC between Worker and destination, so their field names are part of that interface.
 */

/** `<accessor>/<secret name>`: the key of an association in answers, and its row's id. */
export const associationId = ({ mountAccessor, secretName }: Pick<SecretRef, "mountAccessor" | "secretName">): string =>
  `${mountAccessor}/${secretName}`;

/** Whether the provider was called for this object. */
export const isCall = ({ state }: ObjectResult): boolean =>
  state !== "kept" && state !== "untouched" && state !== "retained";

/** Whether a push may have been applied although it failed. */
export const isUnsure = (trouble: Trouble): boolean =>
  trouble.outcome === "unknown" || ("unsure" in trouble && trouble.unsure === true);

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

export const statusFor = (trouble: Trouble): SyncStatus => statusOf[trouble.outcome];

/** The worst of some statuses; undefined for none. */
export const worst = (statuses: readonly SyncStatus[]): SyncStatus | undefined =>
  SEVERITY.find((status) => statuses.includes(status));

/** Whether the call was not sent because syncing is paused. */
export const isPaused = (trouble: Trouble | undefined): boolean => trouble?.code === "paused";

/** The completion of a task's lease, from the results of its objects: done, again, retry or park. */
export function completionOf(result: SyncResult): WorkOutcome {
  const troubles = [result.trouble, ...result.copies.map((copy) => copy.trouble)].filter((one) => one !== undefined);
  if (troubles.some(isPaused)) return { kind: "again" };
  const passing = troubles.filter((one) => one.outcome !== "client");
  if (passing.length > 0) {
    const waits = passing.flatMap((one) =>
      "retryAfterMs" in one && one.retryAfterMs !== undefined ? [one.retryAfterMs] : [],
    );
    if (waits.length === 0) return { kind: "retry" };
    // Providers count a rate over all calls, so a throttled call pauses the whole destination.
    return { kind: "retry", afterMs: Math.max(...waits), all: passing.some((one) => one.code === "throttled") };
  }
  if (result.unfinished) return { kind: "again" };
  // A refused configuration is retried after a change of it, a new version, another set, or by the resync.
  return troubles.length > 0 ? { kind: "park" } : { kind: "done" };
}
