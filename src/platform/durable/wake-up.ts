import { textOf, warn } from "../observability/log.ts";

/** A message of the queue `sync-work`: which object has work. Never the work itself, so losing or repeating it is harmless. */
export type Bell = { readonly destination: string } | { readonly engine: string };

/** After one ring the next waits this long, unless a claim has run in between. */
export const RING_AGAIN_MS = 5_000;

/**
 * Tells the queue that an object has work, without drowning it: one message until a claim has run. What is in memory here
 * may be lost; then the bell rings once more.
 */
export class Doorbell {
  readonly #queue: Queue<Bell>;
  readonly #bell: Bell;
  #quietUntil = 0;

  constructor(queue: Queue<Bell>, name: string, kind: "destination" | "engine" = "destination") {
    this.#queue = queue;
    this.#bell = kind === "engine" ? { engine: name } : { destination: name };
  }

  /** When the alarm should see to work that is ready at `readyAt`. */
  due(readyAt: number | null): number | null {
    return readyAt === null ? null : Math.max(readyAt, this.#quietUntil);
  }

  /** Someone is about to claim anyway: stay quiet for `ms`. */
  expectClaimWithin(ms: number, now: number): void {
    this.#quietUntil = now + ms;
  }

  /** A claim has run. */
  answered(): void {
    this.#quietUntil = 0;
  }

  /**
   * Whether it is time to ring; if so, the next time is later. Asked before the commit that arms the alarm, which then is
   * the one for the ring after this.
   */
  lift(now: number): boolean {
    if (now < this.#quietUntil) return false;
    this.#quietUntil = now + RING_AGAIN_MS;
    return true;
  }

  /** Never rejects: the alarm rings again. */
  async ring(): Promise<void> {
    try {
      await this.#queue.send(this.#bell);
    } catch (failure) {
      warn("doorbell-failed", { ...this.#bell, because: textOf(failure) });
    }
  }
}
