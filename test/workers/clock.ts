import { vi } from "vitest";

/** Whether tests of this file move the clock; then alarms set at one time cannot be held against another. */
export const clock = { moves: false };

/** Clocks that have not ended in this test. */
const shifted = new Set<ShiftedClock>();

/** The clock of all objects and Workers, ahead of the machine's until its end. Several at once add up. */
export class ShiftedClock {
  #ahead: number;

  /** @param ahead in ms */
  constructor(ahead = 0) {
    this.#ahead = ahead;
    // One that a test before left has ended with the mocks of that test.
    if (!vi.isMockFunction(Date.now)) shifted.clear();
    if (shifted.size === 0) {
      const real = Date.now.bind(Date);
      vi.spyOn(Date, "now").mockImplementation(() => [...shifted].reduce((now, clock) => now + clock.#ahead, real()));
    }
    shifted.add(this);
  }

  /** How far the clock is ahead, in ms; the time that a test takes is not part of it. */
  get ahead(): number {
    return this.#ahead;
  }

  advance(ms: number): void {
    this.#ahead += ms;
  }

  end(): void {
    // The mocks of the test may have been restored before.
    if (shifted.delete(this) && shifted.size === 0 && vi.isMockFunction(Date.now)) vi.mocked(Date.now).mockRestore();
  }
}

/** Shortest wait of a Worker that is skipped, in ms. */
export const SKIPPED_WAIT_MS = 200;

interface Skipped {
  readonly clock: ShiftedClock;
  /** Shortest wait, in ms. */
  readonly from: number;
}

const realWait = scheduler.wait.bind(scheduler);
/** Skips that have not ended in this test. */
const skipping = new Set<Skipped>();

/** Has waits only advance the clock, until the returned function is called or the mocks are restored. */
export function skipWaits(skipped: Skipped): () => void {
  if (!vi.isMockFunction(scheduler.wait)) skipping.clear();
  skipping.add(skipped);
  vi.spyOn(scheduler, "wait").mockImplementation((ms, options) => {
    const found = [...skipping].find(({ from }) => ms >= from);
    if (!found) return realWait(ms, options);
    found.clock.advance(ms);
    return realWait(0, options);
  });
  return () => {
    const isLast = skipping.delete(skipped) && skipping.size === 0;
    if (isLast && vi.isMockFunction(scheduler.wait)) vi.mocked(scheduler.wait).mockRestore();
  };
}

/** Longer than any answer takes on a machine that still finishes its tests. */
const PATIENT_MS = 50_000;

/**
 * Timers of these delays fire late from now on, until the mocks are restored. For deadlines of the product that only a
 * busy machine exceeds: no test of the file may be about them.
 * @param delays in ms, as the product sets them
 */
export function extendDeadlines(...delays: readonly number[]): void {
  if (vi.isMockFunction(globalThis.setTimeout)) vi.mocked(globalThis.setTimeout).mockRestore();
  const set = globalThis.setTimeout as (run: () => void, ms: number, ...given: unknown[]) => unknown;
  const extended = (run: () => void, ms = 0, ...given: unknown[]) =>
    set(run, delays.includes(ms) ? PATIENT_MS : ms, ...given);
  vi.spyOn(globalThis, "setTimeout").mockImplementation(extended as unknown as typeof setTimeout);
}
