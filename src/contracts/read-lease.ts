/** A change of an owner that a replica must acknowledge. */
export interface Invalidation {
  readonly seq: number;
  /** Names of the changed tokens or paths; null for everything. */
  readonly keys: readonly string[] | null;
}

/** The lease that comes with an answer to a replica: see `LeaseTable`. */
export interface ReadLease {
  readonly ms: number;
  readonly term: number;
  readonly clock: number;
}

/**
 * A key that an instance of a replica gave back before a change of it: it serves nothing of it, and keeps no answer to
 * its questions up to a number. So the change need not be announced to it.
 */
export interface GivenBack {
  readonly key: string;
  /** The instance. */
  readonly holder: string;
  /** The number of its latest question. */
  readonly question: number;
}

/** An answer of an owner to a replica. */
export interface Leased<T> {
  readonly answer: T;
  /** Null for an answer that serves the request that asked, and no other. */
  readonly lease: ReadLease | null;
}
