import type { Result } from "../lib/result.ts";

/** An answer to store in wrapped form. */
export interface WrapRequest {
  readonly namespace: string;
  /** The path of the request that is answered, inside its namespace. */
  readonly path: string;
  /** Seconds. */
  readonly ttl: number;
  /** The body of the answer, as text. */
  readonly body: string;
  /** The accessor of a token in the answer; empty for none. */
  readonly accessor: string;
  /** The accessor of the token that made the request; null for requests without one. */
  readonly asker: string | null;
}

/** Stands for a wrapped answer (Vault API, `wrap_info`). */
export interface WrapInfo {
  /** The wrapping token, usable once. */
  readonly token: string;
  readonly accessor: string;
  /** Seconds. */
  readonly ttl: number;
  readonly creation_time: string;
  readonly creation_path: string;
  readonly wrapped_accessor: string;
}

/** The answer of `sys/wrapping/lookup`. */
export interface WrapLookup {
  readonly creation_path: string;
  readonly creation_time: string;
  /** Seconds. */
  readonly creation_ttl: number;
}

/** A wrapped answer that was taken out. */
export interface Unwrapped {
  /** The accessor of the wrapping token. */
  readonly accessor: string;
  readonly body: string;
}

/** The methods of `AccessControl` about wrapped answers. */
export interface WrappingApi {
  /** Stores an answer in wrapped form, sealed. Refused when too many wait. */
  wrap(request: WrapRequest): Result<WrapInfo>;
  lookupWrapping(token: string): Result<WrapLookup>;
  /** Returns the wrapped answer of a token and deletes both; the second call is refused. */
  unwrap(token: string): Result<Unwrapped>;
  /** Moves a wrapped answer to a new token, with the original TTL. */
  rewrap(token: string): Result<WrapInfo>;
}
