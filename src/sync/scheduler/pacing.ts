import type { Pace } from "../destinations/destination-type.ts";

/** Clocks of requests that run side by side stand at the time of their last call. A larger step back is another clock. */
const SKEW_MS = 5_000;

/**
 * The write rate of one destination: a token bucket of `burst` tokens, refilled at `perMinute`. Held in memory: after a
 * restart it is full, and the provider's own limit applies.
 */
export class Pacing {
  #tokens: number | null = null;
  #at = 0;

  /** How many writes may start now. */
  room(pace: Pace, now: number): number {
    this.#fill(pace, now);
    return Math.max(0, Math.floor(this.#tokens ?? 0));
  }

  /** Takes tokens for writes that were leased or made. The balance may become negative. */
  spend(pace: Pace, writes: number, now: number): void {
    this.#fill(pace, now);
    this.#tokens = (this.#tokens ?? 0) - writes;
  }

  /** When the next write may start, ms since 1970; 0 if it may start now, so that the time is due for every clock. */
  nextAt(pace: Pace, now: number): number {
    this.#fill(pace, now);
    const missing = 1 - (this.#tokens ?? 0);
    return missing <= 0 ? 0 : now + Math.ceil((missing * 60_000) / pace.perMinute);
  }

  #fill(pace: Pace, now: number): void {
    const gained = ((now - this.#at) * pace.perMinute) / 60_000;
    this.#tokens = this.#tokens === null ? pace.burst : Math.min(pace.burst, this.#tokens + Math.max(0, gained));
    // A clock that is a little behind is that of a request which runs beside another; time must not be gained twice.
    this.#at = now < this.#at - SKEW_MS ? now : Math.max(this.#at, now);
  }
}
