import type { OperationError } from "@sallyport/agent-protocol";

/** What a node is asked to do. Its owner has committed it before it asks, so that it can ask again. */
export interface Operation {
  /** UUID version 7, and the idempotency key. */
  readonly id: string;
  readonly method: string;
  /** What it is about; the node works on one operation of a key at a time. */
  readonly key: string;
  /** Grows with each intent for the key. */
  readonly gen: number;
  /** Time to work, from the moment that the node begins. */
  readonly deadlineMs: number;
  readonly params: Readonly<Record<string, unknown>>;
  /** Stored sealed, and only until the operation has ended. */
  readonly secrets?: Readonly<Record<string, string>>;
}

/**
 * What came of it. `failed` left nothing behind. `unknown` may have happened or may yet happen: it is asked for again until
 * it is known, and then told again. `given-up` may have happened, too, and nobody will learn it any more. The same may be told twice.
 */
export type OperationResult =
  | { readonly state: "done"; readonly result: Readonly<Record<string, unknown>> }
  | { readonly state: "failed" | "unknown" | "given-up"; readonly error: Pick<OperationError, "kind" | "message"> };
