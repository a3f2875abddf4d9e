/** Frames that may come at once: all results that an agent may hold back, and then some. */
const BURST = 2_000;
const PER_SECOND = 50;
/** What an agent says of an operation that it was asked for: that it has it, its result, and a repetition of one. */
const FRAMES_PER_OPERATION = 3;
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

  /** An operation that it was asked for has ended: what it had to say of that is not held against it. */
  giveBack(): void {
    this.#left = Math.min(BURST, this.#left + FRAMES_PER_OPERATION);
  }
}
