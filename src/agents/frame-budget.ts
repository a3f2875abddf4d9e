/** Frames that may come at once: all results that an agent may hold back, and then some. */
const BURST = 2_000;
const PER_SECOND = 50;
/** A frame costs one for itself, and one for each of these bytes. */
const COST_BYTES = 16 * 1024;

/** How much an agent may send: a bucket that fills slowly. One that hibernation empties is full again, which does no harm. */
export class FrameBudget {
  #left = BURST;
  #at = 0;

  /** Pays for a frame of this size at `now` (ms). @returns false when there is not enough left */
  spend(bytes: number, now: number): boolean {
    this.#left = Math.min(BURST, this.#left + (Math.max(0, now - this.#at) / 1_000) * PER_SECOND);
    this.#at = now;
    const cost = 1 + bytes / COST_BYTES;
    if (cost > this.#left) return false;
    this.#left -= cost;
    return true;
  }
}
