import type { Result } from "../lib/result.ts";
import type { Operation } from "./node-operation.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** The state of a session as operators see it. */
export interface SessionState {
  /** Time of the last message (ms since 1970); null before the first. */
  readonly seen: number | null;
  readonly inFlight: number;
  readonly queued: number;
}

/** The methods of `NodeSession` that other objects and Workers call. */
export interface NodeSessionApi extends StoredObjectApi {
  /**
   * Accepts an operation; its outcome is delivered later. Idempotent by id; a repeat with unknown outcome retries at once.
   * @returns a refusal without effect when the agent is not connected or a newer intent for the key was accepted
   */
  start(operation: Operation): Promise<Result<null>>;
  state(): SessionState;
  /** Disconnects a removed agent and drops its operations. */
  revoke(): Promise<void>;
  /** Reports the node again after a purge while its agent is connected. */
  purged(): Promise<void>;
  rekey(term: number): void;
}

/** A connection request, sent by the Worker that verified the agent's token. */
export interface ConnectRequest {
  readonly jti: string;
  /** Issue time of the token (seconds since 1970). */
  readonly issued: number;
  readonly pool: string;
  readonly boundName: string | null;
}
