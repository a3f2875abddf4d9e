import type { Claim, Ending } from "../platform/durable/lease.ts";
import type { Failure } from "../providers/outcome.ts";
import type { Granularity, UpdatePolicy } from "./destinations/destination-type.ts";

/**
 * Data types of secret sync: secrets, associations, tasks and their results. `Setup`, `PollAnswer`, `SyncTask` and
 * `SyncResult` cross RPC between Worker and destination, so their field names are part of that interface.
 */

/** The sync status of an object, in Vault's words; `INTERNAL_ERROR` is added for failures of this service. */
export type SyncStatus =
  | "PENDING"
  | "SYNCED"
  | "UNSYNCED"
  | "CLIENT_SIDE_ERROR"
  | "EXTERNAL_SERVICE_ERROR"
  | "UNKNOWN"
  | "INTERNAL_ERROR";

/** Identifies a secret by its mount's uuid and accessor, which survive a move of the mount. */
export interface SecretRef {
  readonly mountUuid: string;
  readonly mountAccessor: string;
  readonly mountPath: string;
  readonly secretName: string;
}

/** `<accessor>/<secret name>`: the key of an association in answers, and its row's id. */
export const associationId = ({ mountAccessor, secretName }: Pick<SecretRef, "mountAccessor" | "secretName">): string =>
  `${mountAccessor}/${secretName}`;

/** One external object of an association as responses show it; `sub_key` with granularity secret-key only. */
export interface AssociationView {
  readonly accessor: string;
  readonly secret_name: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly sync_status: SyncStatus;
  readonly updated_at: string;
  readonly error_code?: string;
  readonly error_message?: string;
  /** Explains a success without a push, such as an object left alone by `if-not-exists`. */
  readonly note?: string;
  readonly synced_version?: number;
  readonly attempts?: number;
  readonly next_attempt_at?: string;
}

/** A failure as it is stored and shown. `internal`: caused by this service. */
export type Trouble = Failure | { readonly outcome: "internal"; readonly code: string; readonly message: string };

/** One external object of a task. */
export interface ObjectTask {
  readonly subKey: string;
  readonly name: string;
  /** The object is removed even when the secret exists. */
  readonly obsolete: boolean;
  /** Whether an object of this service exists under this name; `no`: no push was ever sent. */
  readonly ours: "no" | "maybe" | "certainly";
  /** The version at the provider, null for none; undefined while it is uncertain. */
  readonly outside: number | null | undefined;
  /** Whether an earlier push succeeded: a hint for the first call to try. */
  readonly knownToExist: boolean;
  readonly fingerprint: string | null;
  readonly reference: string | null;
  readonly previousTagKeys: readonly string[];
  readonly blocked: boolean;
  /** Start of the first push with unknown outcome since the last known one (ms since 1970); null for none. */
  readonly unsureSince: number | null;
  /** Another destination may own the name: `plan` checks before the object is touched. */
  readonly unclaimed: boolean;
}

/** A task: the desired state of one association, leased to a Worker. */
export interface SyncTask {
  readonly claim: Claim;
  readonly wish: "present" | "absent";
  readonly mountUuid: string;
  readonly secretName: string;
  readonly granularity: Granularity;
  readonly copies: readonly ObjectTask[];
  readonly idempotencyToken: string;
}

/** Settings shared by all tasks of a destination. Holds connection secrets, so it is never stored. */
export interface Setup {
  readonly namespace: string;
  readonly type: string;
  readonly connection: unknown;
  readonly tags: Readonly<Record<string, string>>;
  readonly updatePolicy: UpdatePolicy;
  /** Obsolete objects stay at the provider (deletion policy `retain`). */
  readonly retain: boolean;
  /** HMAC key for the fingerprints of values. */
  readonly fingerprintKey: string;
  readonly atOnce: number;
}

/** The response to a Worker's poll. */
export interface PollAnswer {
  /** False while syncing is paused. */
  readonly running: boolean;
  /** How long provider calls may start, counted from when the poll was sent. */
  readonly permitMs: number;
  readonly setup: Setup | null;
  readonly tasks: readonly SyncTask[];
  /** Delay in ms until more work may be ready; null when no work waits. */
  readonly retryInMs: number | null;
}

/** The result of a task for one external object. */
export interface ObjectResult {
  readonly subKey: string;
  readonly name: string;
  /**
   * `kept`: the object was up to date. `left`: `if-not-exists` found an object. `absent`: no object exists.
   * `retained`: the deletion policy keeps it. `untouched`: no call was made. `failed`: the state is uncertain.
   */
  readonly state: "pushed" | "kept" | "left" | "absent" | "retained" | "untouched" | "failed";
  readonly trouble?: Trouble;
  /** Set for an untouched object whose recorded state was certain. */
  readonly certain?: true;
  /** Set for an untouched or failed object: `unsureSince` of its task. */
  readonly unsureSince?: number;
  /** No object of this service exists under this name. */
  readonly notOurs?: true;
  readonly fingerprint?: string;
  readonly reference?: string;
  /** The value to store, for destinations of kind `stored`. */
  readonly value?: string;
}

/** Whether the provider was called for this object. */
export const isCall = ({ state }: ObjectResult): boolean =>
  state !== "kept" && state !== "untouched" && state !== "retained";

/** Whether a push may have been applied although it failed. */
export const isUnsure = (trouble: Trouble): boolean =>
  trouble.outcome === "unknown" || ("unsure" in trouble && trouble.unsure === true);

/** The result of a task. */
export interface SyncResult {
  readonly claim: Claim;
  /** A failure of the whole task, apart from its objects. */
  readonly trouble?: Trouble;
  /** The version at the provider now; null for none. */
  readonly version: number | null;
  readonly tagKeys: readonly string[];
  readonly copies: readonly ObjectResult[];
  /** The task ran out of time before all objects were handled. */
  readonly unfinished: boolean;
}

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
export function completionOf(result: SyncResult): Ending {
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
