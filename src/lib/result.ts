/**
 * An expected refusal is a value with a reason, not an exception: objects return it over RPC and
 * `src/platform/http/errors.ts` turns each reason into a status in one place.
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
  /** What does the work elsewhere failed, or answered what it must not. */
  | "faulty"
  /** It has not answered in time, and what came of it is not known. */
  | "timeout"
  /** It has no room for more. */
  | "exhausted"
  | "sealed";

export interface Refusal {
  readonly ok: false;
  readonly reason: Reason;
  /** What the caller reads. Empty for "there is nothing here". Never holds a secret. */
  readonly message: string;
}

export type Result<T> = { readonly ok: true; readonly value: T } | Refusal;

export const ok = <T>(value: T): { ok: true; value: T } => ({ ok: true, value });
export const refuse = (reason: Reason, message = ""): Refusal => ({ ok: false, reason, message });
