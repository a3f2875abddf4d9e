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

/** Longer than any answer takes on a machine that still finishes its tests. */
const PATIENT_MS = 50_000;

/**
 * Timers of these delays fire late from now on, until the mocks are restored. For deadlines of the product that only a
 * busy machine exceeds: no test of the file may be about them.
 * @param delays in ms, as the product sets them
 */
export function extendDeadlines(...delays: readonly number[]): void {
  const set = globalThis.setTimeout as (run: () => void, ms: number, ...given: unknown[]) => unknown;
  const extended = (run: () => void, ms = 0, ...given: unknown[]) =>
    set(run, delays.includes(ms) ? PATIENT_MS : ms, ...given);
  vi.spyOn(globalThis, "setTimeout").mockImplementation(extended as unknown as typeof setTimeout);
}
