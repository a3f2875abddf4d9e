import type { MayRun } from "../objects/sync-control.ts";

/** While syncing is paused nobody rings. Going on is told by `SyncControl`, and looked at again after this long. */
export const PAUSE_RECHECK_MS = 60_000;
/** A permission that holds for less than this is asked for anew. */
const PERMIT_LEAST_MS = 20;

/** What a destination knows of the global pause. In memory: whoever knows nothing asks. */
export class SyncGate {
  readonly #ask: () => Promise<MayRun>;
  #permitUntil = 0;
  #pausedUntil = 0;

  constructor(ask: () => Promise<MayRun>) {
    this.#ask = ask;
  }

  /** Whether calls to the provider may start now. */
  async mayRun(): Promise<boolean> {
    const sent = Date.now();
    if (this.#permitUntil - sent >= PERMIT_LEAST_MS) return true;
    const answer = await this.#ask();
    this.update(answer, sent);
    return answer.running;
  }

  /** @param sent when the question was sent: what the answer permits counts from then */
  update({ running, permitMs }: MayRun, sent: number): void {
    this.#permitUntil = running ? sent + permitMs : 0;
    this.#pausedUntil = running ? 0 : sent + PAUSE_RECHECK_MS;
  }

  /** For how long calls may still start without asking again. */
  permitMs(now: number): number {
    return Math.max(0, this.#permitUntil - now);
  }

  /** Before then nobody need ask whether the pause is over; 0 when none is known of. */
  pausedUntil(): number {
    return this.#pausedUntil;
  }
}
