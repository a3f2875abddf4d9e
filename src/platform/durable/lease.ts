/**
 * A lease on a work row. Work is a desired state, not a message: a row names an external resource to reconcile, with a
 * generation that grows with each change of the desired state. A Worker leases rows, performs them and completes them.
 */
export interface WorkLease {
  readonly id: string;
  readonly generation: number;
  /** Random; only the lease that holds it can complete. */
  readonly lease: string;
  /** After this time (ms since 1970, the object's clock) the lease is void and the row can be leased again. */
  readonly leaseUntil: number;
}

/**
 * Outcome of a lease. `park`: no retry until the desired state changes. `again`: interrupted through no fault of its
 * own. `retry`: after a back-off of at most `capMs`, and not before `afterMs`; with `all`, the provider asked for that
 * pause from every row of the queue; after `attempts` retries the row is parked (default: never).
 */
export type WorkOutcome =
  | { readonly kind: "done" }
  | { readonly kind: "park" }
  | { readonly kind: "again" }
  | {
      readonly kind: "retry";
      readonly afterMs?: number;
      readonly capMs?: number;
      readonly all?: boolean;
      readonly attempts?: number;
    };

/**
 * Result of completing a lease. `superseded`: the desired state changed meanwhile and the row is ready again. `stale`:
 * the lease was void.
 */
export type CompletionResult = "done" | "parked" | "retrying" | "superseded" | "stale";
