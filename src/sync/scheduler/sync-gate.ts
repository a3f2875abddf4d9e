import type { MayRun } from "../../contracts/sync-control.ts";

/** While syncing is paused no wake-up is sent. `SyncControl` announces the end; this is the fallback interval. */
export const PAUSE_RECHECK_MS = 60_000;
/** A lease with less than this left is renewed. */
const RENEWED_BELOW_MS = 20;

/**
 * The destination's view of the global sync gate: a cached lease of `SyncControl` to start provider calls, or the
 * knowledge that syncing is paused. Held in memory; costs one RPC per renewal.
 *
 *   unknown --mayRun()--> leased --lease over--> unknown
 *      |                                            ^
 *      +----mayRun()----> paused --PAUSE_RECHECK_MS-+
 */
export class SyncGate {
  #leasedUntil = 0;
  #pausedUntil = 0;
  /** When the question of the newest answer was sent. */
  #sent = 0;

  /** @param resumed called when an answer ends a known pause: deadlines that waited for its end are earlier now */
  constructor(
    private readonly request: () => Promise<MayRun>,
    private readonly resumed: () => void,
  ) {}

  /** Whether calls to the provider may start now. */
  async mayRun(): Promise<boolean> {
    const sent = Date.now();
    if (this.#leasedUntil - sent >= RENEWED_BELOW_MS) return true;
    const answer = await this.request();
    this.update(answer, sent);
    return answer.running;
  }

  /**
   * Ignores answers that others have overtaken. Of two requests of one moment the lease counts: a pause waits for its end.
   * @param sent when the request was sent; the lease counts from then
   */
  update({ running, permitMs }: MayRun, sent: number): void {
    if (sent < this.#sent || (sent === this.#sent && !running && this.#leasedUntil > 0)) return;
    const ends = running && this.#pausedUntil > 0;
    this.#sent = sent;
    this.#leasedUntil = running ? sent + permitMs : 0;
    this.#pausedUntil = running ? 0 : sent + PAUSE_RECHECK_MS;
    if (ends) this.resumed();
  }

  /** How long calls may still start under the current lease. */
  leaseMs(now: number): number {
    return Math.max(0, this.#leasedUntil - now);
  }

  /** The next check of the pause (ms since 1970); 0 while no pause is known. */
  pausedUntil(): number {
    return this.#pausedUntil;
  }
}
