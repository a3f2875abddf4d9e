/**
 * Work is a desired state, not a message: a row says that something outside should be made so, with a generation that grows
 * each time the wish changes. A Worker claims rows for a while (the lease), performs them and settles them.
 */
export interface WorkLease {
  readonly id: string;
  readonly generation: number;
  /** Random; only the claim that holds it can settle. */
  readonly lease: string;
  /** After this (ms since 1970, the object's clock) the claim is void and another worker may have it. */
  readonly leaseUntil: number;
}

/**
 * How a claim ended. `park`: nothing to gain from trying again until the wish changes. `again`: it did not come to an end,
 * through no fault of its own. `retry`: after a back-off, and not before `afterMs`; with `all`, whoever is served asked for
 * that pause from everything in the list; after `attempts` of them it is parked (default: never).
 */
export type WorkOutcome =
  | { readonly kind: "done" }
  | { readonly kind: "park" }
  | { readonly kind: "again" }
  | { readonly kind: "retry"; readonly afterMs?: number; readonly all?: boolean; readonly attempts?: number };

/** What settling a claim did. `superseded`: the wish changed meanwhile, the row is ready again. `stale`: the claim was void. */
export type CompletionResult = "done" | "parked" | "retrying" | "superseded" | "stale";
