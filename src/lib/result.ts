import type { RateLimit } from "./rate-limit.ts";

/**
 * An expected refusal is a value with a reason, not an exception: objects return it over RPC, and
 * `src/platform/http/errors.ts` maps each reason to a status in one place.
 */
export type Reason =
  | "invalid"
  | "denied"
  | "missing"
  | "conflict"
  | "in-use"
  | "too-large"
  | "unsupported"
  | "unavailable"
  /** A remote component failed, or returned an invalid answer. */
  | "faulty"
  /** A remote component did not answer in time; the outcome is unknown. */
  | "timeout"
  /** A remote component has no capacity. */
  | "exhausted"
  /** The caller has sent too many requests. */
  | "limited"
  | "sealed";

export interface Refusal {
  readonly ok: false;
  readonly reason: Reason;
  /** Message for the caller. Empty for "not found". Never contains a secret. */
  readonly message: string;
  /** The limit that a request exceeded. */
  readonly rate?: RateLimit;
}

export type Result<T> = { readonly ok: true; readonly value: T } | Refusal;

export const ok = <T>(value: T): { ok: true; value: T } => ({ ok: true, value });
export const refuse = (reason: Reason, message = ""): Refusal => ({ ok: false, reason, message });
