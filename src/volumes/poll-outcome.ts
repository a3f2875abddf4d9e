import { type Refusal, refuse } from "../lib/result.ts";

/** Allowance for the round trip between registry and node. */
export const GRACE_MS = 10_000;
/** One poll of an operation lasts this long, so that a disconnected client stops polling. */
const ONE_WAIT_MS = 2_000;

/**
 * Polls until an operation is completed; null when it is not by `until` (ms).
 * @param ask waits by itself, possibly at a new object each time; null = still running; `last`: no further poll
 *   follows
 * @param caller aborts when the caller has left, which ends the polls
 */
export async function pollOutcome<T>(
  until: number,
  ask: (waitMs: number, last: boolean) => Promise<T | null>,
  caller: AbortSignal | null = null,
): Promise<T | null> {
  for (;;) {
    const left = until - Date.now();
    const wait = Math.max(0, Math.min(left, ONE_WAIT_MS));
    try {
      const outcome = await ask(wait, left <= ONE_WAIT_MS);
      if (outcome) return outcome;
    } catch {
      // The registry is restarting; its stored operations survive.
      await scheduler.wait(Math.min(wait, 200));
    }
    if (left <= ONE_WAIT_MS || caller?.aborted) return null;
  }
}

/** The refusal of a request that has waited long enough. @param kind `busy`: for an operation of another request */
export const notEnded = (kind: "begun" | "busy", operation: string): Refusal =>
  refuse(
    "timeout",
    kind === "busy"
      ? `operation ${operation} on this volume has not ended yet; nothing was changed`
      : `operation ${operation} has not ended in time: it goes on, and the same request waits for it again`,
  );
