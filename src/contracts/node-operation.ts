import type { OperationError } from "@sallyport/agent-protocol";

/** An operation for a node agent. Its owner commits it before sending, so it can be sent again. */
export interface Operation {
  /** UUID version 7, and the idempotency key. */
  readonly id: string;
  readonly method: string;
  /** The subject; a node runs one operation per key at a time. */
  readonly key: string;
  /** Increases with each intent for the key. */
  readonly gen: number;
  /** Time limit from the start at the node. */
  readonly deadlineMs: number;
  readonly params: Readonly<Record<string, unknown>>;
  /** Stored sealed, and only until the operation has ended. */
  readonly secrets?: Readonly<Record<string, string>>;
}

/**
 * The outcome of an operation, delivered at least once. `failed`: no effect remains. `unknown`: it may have happened or
 * may still happen; it is retried until the outcome is known. `given-up`: unknown for good.
 */
export type OperationResult =
  | { readonly state: "done"; readonly result: Readonly<Record<string, unknown>> }
  | { readonly state: "failed" | "unknown" | "given-up"; readonly error: Pick<OperationError, "kind" | "message"> };
