/** A request asks whether its operation has ended, for this long at a time: who is gone stops asking. */
const ONE_WAIT_MS = 2_000;

/**
 * Asks until an operation has ended; null when it has not by `until` (ms).
 * @param ask waits itself, at an object that may be a new one each time; null = not yet; `last`: nobody asks again
 */
export async function outcomeBy<T>(
  until: number,
  ask: (waitMs: number, last: boolean) => Promise<T | null>,
): Promise<T | null> {
  for (;;) {
    const left = until - Date.now();
    const wait = Math.max(0, Math.min(left, ONE_WAIT_MS));
    try {
      const outcome = await ask(wait, left <= ONE_WAIT_MS);
      if (outcome) return outcome;
    } catch {
      // The registry restarts; what it has written down is there when it is back.
      await scheduler.wait(Math.min(wait, 200));
    }
    if (left <= ONE_WAIT_MS) return null;
  }
}
