import type { Claim, Ending } from "../platform/durable/lease.ts";
import type { Failure } from "../providers/outcome.ts";
import type { Granularity, UpdatePolicy } from "./destinations/destination-type.ts";

/** How far a secret's copy at a destination is. Upstream's words, save for our own failure (contract: secret-sync 2.1). */
export type SyncStatus =
  | "PENDING"
  | "SYNCED"
  | "UNSYNCED"
  | "CLIENT_SIDE_ERROR"
  | "EXTERNAL_SERVICE_ERROR"
  | "UNKNOWN"
  | "INTERNAL_ERROR";

/** Which secret, so that its mount is found again whatever its path becomes. */
export interface SecretRef {
  readonly mountUuid: string;
  readonly mountAccessor: string;
  readonly mountPath: string;
  readonly secretName: string;
}

/** `<accessor>/<secret name>`: the key of an association in answers, and its row's id. */
export const associationId = ({ mountAccessor, secretName }: Pick<SecretRef, "mountAccessor" | "secretName">): string =>
  `${mountAccessor}/${secretName}`;

/** One external object of an association as answers show it; `sub_key` with granularity secret-key only. */
export interface AssociationView {
  readonly accessor: string;
  readonly secret_name: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly sync_status: SyncStatus;
  readonly updated_at: string;
  readonly error_code?: string;
  readonly error_message?: string;
  /** Says why a success may not be what one expects. */
  readonly note?: string;
  readonly synced_version?: number;
  readonly attempts?: number;
  readonly next_attempt_at?: string;
}

/** Why something could not be done, as it is stored and shown. `internal`: through our own fault. */
export type Trouble = Failure | { readonly outcome: "internal"; readonly code: string; readonly message: string };

/** One external object, as a Worker gets it. */
export interface ObjectTask {
  readonly subKey: string;
  readonly name: string;
  /** To be removed, whatever the secret holds. */
  readonly obsolete: boolean;
  /** Whether something of ours is outside under this name; `no`: nothing was ever tried. */
  readonly ours: "no" | "maybe" | "certainly";
  /** The version that is outside, null for none; undefined when that is not known for certain. */
  readonly outside: number | null | undefined;
  /** Whether an earlier push succeeded: a hint what to try first. */
  readonly knownToExist: boolean;
  readonly fingerprint: string | null;
  readonly reference: string | null;
  readonly previousTagKeys: readonly string[];
  readonly blocked: boolean;
  /** When the first push of unknown outcome since the last known one began (ms since 1970), null when there was none. */
  readonly unsureSince: number | null;
  /** Another destination may have the name: `plan` asks before anything is done under it. */
  readonly unclaimed: boolean;
}

/** What a Worker gets to perform: make the association so. */
export interface SyncTask {
  readonly claim: Claim;
  readonly wish: "present" | "absent";
  readonly mountUuid: string;
  readonly secretName: string;
  readonly granularity: Granularity;
  readonly copies: readonly ObjectTask[];
  readonly idempotencyToken: string;
}

/** What all tasks of a destination share. Holds connection secrets: it lives in memory only. */
export interface Setup {
  readonly namespace: string;
  readonly type: string;
  readonly connection: unknown;
  readonly tags: Readonly<Record<string, string>>;
  readonly updatePolicy: UpdatePolicy;
  /** Objects that are not wanted any more stay where they are. */
  readonly retain: boolean;
  /** Keys the fingerprints of values. */
  readonly fingerprintKey: string;
  readonly atOnce: number;
}

/** An answer to a Worker that asks for work. */
export interface PollAnswer {
  /** False while syncing is paused. */
  readonly running: boolean;
  /** How long from the question on calls may start without asking again. */
  readonly permitMs: number;
  readonly setup: Setup | null;
  readonly tasks: readonly SyncTask[];
  /** When there may be more to do, in ms from now; null when nothing waits. */
  readonly retryInMs: number | null;
}

/** What a task did to one external object. */
export interface ObjectResult {
  readonly subKey: string;
  readonly name: string;
  /**
   * `kept`: it is what it should be already. `absent`: it is not there (any more). `untouched`: nothing was tried, it is as it
   * was. `failed`: who knows.
   */
  readonly state: "pushed" | "kept" | "left" | "absent" | "retained" | "untouched" | "failed";
  readonly trouble?: Trouble;
  /** Of an untouched one: what its record says was certain. */
  readonly certain?: true;
  /** Of an untouched or failed one: what its task said of pushes before it. */
  readonly unsureSince?: number;
  /** For certain nothing of ours is outside under this name. */
  readonly notOurs?: true;
  readonly fingerprint?: string;
  readonly reference?: string;
  /** For destinations that keep their objects themselves: the value to keep. */
  readonly value?: string;
}

/** Whether the provider was called for it. */
export const isCall = ({ state }: ObjectResult): boolean =>
  state !== "kept" && state !== "untouched" && state !== "retained";

/** Whether a push may have been applied although it failed. */
export const isUnsure = (trouble: Trouble): boolean =>
  trouble.outcome === "unknown" || ("unsure" in trouble && trouble.unsure === true);

/** What became of a task. */
export interface SyncResult {
  readonly claim: Claim;
  /** What kept the whole task from being done, apart from its objects. */
  readonly trouble?: Trouble;
  /** The version that is outside now; null when there is none (any more). */
  readonly version: number | null;
  readonly tagKeys: readonly string[];
  readonly copies: readonly ObjectResult[];
  /** Objects remain that the time did not suffice for. */
  readonly unfinished: boolean;
}

const statusOf = {
  client: "CLIENT_SIDE_ERROR",
  external: "EXTERNAL_SERVICE_ERROR",
  unknown: "UNKNOWN",
  internal: "INTERNAL_ERROR",
} as const satisfies Record<string, SyncStatus>;

/** Worst first: what an association shows when its objects differ. */
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

/** The one status that stands for many. */
export const worst = (statuses: readonly SyncStatus[]): SyncStatus | undefined =>
  SEVERITY.find((status) => statuses.includes(status));

/** Nothing was sent, because syncing is paused. */
export const isPaused = (trouble: Trouble | undefined): boolean => trouble?.code === "paused";

/** What the results of a task mean for its work row. */
export function completionOf(result: SyncResult): Ending {
  const troubles = [result.trouble, ...result.copies.map((copy) => copy.trouble)].filter((one) => one !== undefined);
  if (troubles.some(isPaused)) return { kind: "again" };
  const passing = troubles.filter((one) => one.outcome !== "client");
  if (passing.length > 0) {
    const waits = passing.flatMap((one) =>
      "retryAfterMs" in one && one.retryAfterMs !== undefined ? [one.retryAfterMs] : [],
    );
    if (waits.length === 0) return { kind: "retry" };
    // A rate is counted for all calls together, so all of them pause.
    return { kind: "retry", afterMs: Math.max(...waits), all: passing.some((one) => one.code === "throttled") };
  }
  if (result.unfinished) return { kind: "again" };
  // Nothing changes a refusal of our configuration but a change of it, a new version, setting it again, or the scan.
  return troubles.length > 0 ? { kind: "park" } : { kind: "done" };
}
