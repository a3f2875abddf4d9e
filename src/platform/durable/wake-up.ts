import { textOf, warn } from "../observability/log.ts";

/** A message of the queue `sync-work`: which object has work. Never the work itself, so losing or repeating it is harmless. */
export type WakeUpMessage = { readonly destination: string } | { readonly engine: string };

/** After one ring the next waits this long, unless a claim has run in between. */
export const NOTIFY_AGAIN_MS = 5_000;

/**
 * Tells the queue that an object has work, without drowning it: one message until a claim has run. What is in memory here
 * may be lost; then the bell rings once more.
 */
export class WakeUp {
  readonly #queue: Queue<WakeUpMessage>;
  readonly #message: WakeUpMessage;
  #quietUntil = 0;

  constructor(queue: Queue<WakeUpMessage>, name: string, kind: "destination" | "engine" = "destination") {
    this.#queue = queue;
    this.#message = kind === "engine" ? { engine: name } : { destination: name };
  }

  /** When the alarm should see to work that is ready at `readyAt`. */
  due(readyAt: number | null): number | null {
    return readyAt === null ? null : Math.max(readyAt, this.#quietUntil);
  }

  /** Someone is about to claim anyway: stay quiet for `ms`. */
  expectLeaseWithin(ms: number, now: number): void {
    this.#quietUntil = now + ms;
  }

  /** A claim has run. */
  resume(): void {
    this.#quietUntil = 0;
  }

  /**
   * Whether it is time to ring; if so, the next time is later. Asked before the commit that arms the alarm, which then is
   * the one for the ring after this.
   */
  shouldNotify(now: number): boolean {
    if (now < this.#quietUntil) return false;
    this.#quietUntil = now + NOTIFY_AGAIN_MS;
    return true;
  }

  /** Never rejects: the alarm rings again. */
  async notify(): Promise<void> {
    try {
      await this.#queue.send(this.#message);
    } catch (failure) {
      warn("doorbell-failed", { ...this.#message, because: textOf(failure) });
    }
  }
}
