import type { Result } from "../lib/result.ts";
import type { Operation } from "./node-operation.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** How an operator sees a session. */
export interface SessionState {
  /** When the agent was last heard of, ms since 1970; null before the first time. */
  readonly seen: number | null;
  readonly inFlight: number;
  readonly queued: number;
}

/** The methods of `NodeSession` that other objects and Workers call. */
export interface NodeSessionApi extends StoredObjectApi {
  /**
   * Takes an operation on: from then on its outcome will be told. Idempotent by its id; asking again for one whose outcome is
   * unknown tries it again at once.
   * @returns a refusal, and nothing is taken on, when the agent is not there or a newer intent for the key was taken on before
   */
  start(operation: Operation): Promise<Result<null>>;
  state(): SessionState;
  /** The node's agent is removed: it is sent away, and nothing is asked of it any more. */
  revoke(): Promise<void>;
  /** The node was purged. As long as its agent is connected it is there all the same, and the registry is told of it anew. */
  purged(): Promise<void>;
  rekey(term: number): void;
}

/** What a Worker that has verified an agent's token asks of its session. */
export interface ConnectRequest {
  readonly jti: string;
  /** When the token was made, seconds since 1970. */
  readonly issued: number;
  readonly pool: string;
  readonly boundName: string | null;
}
