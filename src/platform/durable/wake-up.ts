import { textOf, warn } from "../observability/log.ts";

/**
 * A message of the queue `sync-work`: the object that has work. It carries no work, so losing or repeating it is
 * harmless.
 */
export type WakeUpMessage =
  | { readonly destination: string }
  | { readonly engine: string }
  | { readonly subscription: string };

/** Minimum time between two messages, unless a lease was taken in between. */
export const NOTIFY_AGAIN_MS = 5_000;

/**
 * Sends a queue message when an object has work: one message until a lease is taken. The state is in memory only; after
 * a restart one more message is sent.
 */
export class WakeUp {
  readonly #message: WakeUpMessage;
  #quietUntil = 0;

  constructor(
    private readonly queue: Queue<WakeUpMessage>,
    name: string,
    kind: "destination" | "engine" | "subscription" = "destination",
  ) {
    this.#message = { [kind]: name } as unknown as WakeUpMessage;
  }

  /** The alarm time for work that is ready at `readyAt`. */
  due(readyAt: number | null): number | null {
    return readyAt === null ? null : Math.max(readyAt, this.#quietUntil);
  }

  /** A caller is about to lease: suppresses messages for `ms`. */
  expectLeaseWithin(ms: number, now: number): void {
    this.#quietUntil = now + ms;
  }

  /** Work was leased: messages are allowed again. */
  resume(): void {
    this.#quietUntil = 0;
  }

  /**
   * Whether a message is due; if so, suppresses the next ones. Call before the commit that arms the alarm, which then
   * serves the message after this one.
   */
  shouldNotify(now: number): boolean {
    if (now < this.#quietUntil) return false;
    this.#quietUntil = now + NOTIFY_AGAIN_MS;
    return true;
  }

  /** Never rejects: the alarm sends again. */
  async notify(): Promise<void> {
    try {
      await this.queue.send(this.#message);
    } catch (failure) {
      warn("wake-up-failed", { ...this.#message, because: textOf(failure) });
    }
  }
}
