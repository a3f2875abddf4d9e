/** Burst size in frames: more than the results an agent may hold back. */
const BURST = 2_000;
const PER_SECOND = 50;
/** Frames per operation: acceptance, result, and one repetition. */
const FRAMES_PER_OPERATION = 3;
/** A frame costs one token, plus one per this many bytes. */
const COST_BYTES = 16 * 1024;

/** Token bucket for an agent's frames. Hibernation resets it to full, which is harmless. */
export class FrameBudget {
  #left = BURST;
  #at = 0;

  /** Charges a frame at `now` (ms). @returns false when the budget is exhausted */
  spend(bytes: number, now: number): boolean {
    this.#left = Math.min(BURST, this.#left + (Math.max(0, now - this.#at) / 1_000) * PER_SECOND);
    this.#at = now;
    const cost = 1 + bytes / COST_BYTES;
    if (cost > this.#left) return false;
    this.#left -= cost;
    return true;
  }

  /** Refunds the frames of a completed operation, so that results are not charged. */
  giveBack(): void {
    this.#left = Math.min(BURST, this.#left + FRAMES_PER_OPERATION);
  }
}
