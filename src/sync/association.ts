import type { Outcome } from "../providers/outcome.ts";
import type { Claim, Ending } from "../work/task.ts";

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

/** An association as answers show it. */
export interface AssociationView {
  readonly accessor: string;
  readonly secret_name: string;
  readonly external_name: string;
  readonly sync_status: SyncStatus;
  readonly updated_at: string;
  readonly error_code?: string;
  readonly error_message?: string;
  readonly synced_version?: number;
  readonly attempts?: number;
  readonly next_attempt_at?: string;
}

/** What a Worker gets to perform. Holds connection secrets: it lives in memory only. */
export interface SyncTask {
  readonly claim: Claim;
  readonly type: string;
  readonly connection: unknown;
  readonly wish: "present" | "absent";
  readonly mountUuid: string;
  readonly secretName: string;
  readonly externalName: string;
  /** Names that earlier templates gave this secret: removed along the way. */
  readonly staleNames: readonly string[];
  readonly tags: Readonly<Record<string, string>>;
  readonly previousTagKeys: readonly string[];
  /** The version that an earlier push left outside, null for none; absent when that is not known for certain. */
  readonly outside?: number | null;
  /** Whether an earlier push succeeded: a hint what to try first. */
  readonly knownToExist: boolean;
  readonly idempotencyToken: string;
}

/** What became of a task. */
export interface SyncResult {
  readonly claim: Claim;
  readonly outcome: Outcome | { readonly outcome: "internal"; readonly code: string; readonly message: string };
  readonly externalName: string;
  readonly tagKeys: readonly string[];
  /** The version that is there now; null when the object was removed. */
  readonly version: number | null;
  readonly removedNames: readonly string[];
  /** For destinations that keep their objects themselves: the value to keep. */
  readonly value?: string;
}

const statusOf = {
  client: "CLIENT_SIDE_ERROR",
  external: "EXTERNAL_SERVICE_ERROR",
  unknown: "UNKNOWN",
  internal: "INTERNAL_ERROR",
} as const satisfies Record<string, SyncStatus>;

/** What an outcome means for the association and for its work row. */
export function endingOf(result: SyncResult): { status: SyncStatus; ending: Ending } {
  const { outcome } = result;
  if (outcome.outcome === "ok") {
    return { status: result.version === null ? "UNSYNCED" : "SYNCED", ending: { kind: "done" } };
  }
  const status = statusOf[outcome.outcome];
  // Nothing changes a refusal of our configuration but a change of it, a new version, or setting the association again.
  if (outcome.outcome === "client") return { status, ending: { kind: "park" } };
  const afterMs = "retryAfterMs" in outcome ? outcome.retryAfterMs : undefined;
  if (afterMs === undefined) return { status, ending: { kind: "retry" } };
  // A rate is counted for all calls together, so all of them pause.
  return { status, ending: { kind: "retry", afterMs, all: outcome.code === "throttled" } };
}
