import { vi } from "vitest";

/** Whether tests of this file move the clock; then alarms set at one time cannot be held against another. */
export const clock = { moves: false };

/** The clock of all objects and Workers, ahead of the machine's until its end. One at a time. */
export class ShiftedClock {
  #ahead: number;
  readonly #now;

  /** @param ahead in ms */
  constructor(ahead = 0) {
    this.#ahead = ahead;
    const real = Date.now.bind(Date);
    this.#now = vi.spyOn(Date, "now").mockImplementation(() => real() + this.#ahead);
  }

  /** How far the clock is ahead, in ms; the time that a test takes is not part of it. */
  get ahead(): number {
    return this.#ahead;
  }

  advance(ms: number): void {
    this.#ahead += ms;
  }

  end(): void {
    this.#now.mockRestore();
  }
}
