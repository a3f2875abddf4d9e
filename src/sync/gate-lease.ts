import type { MayRun } from "../objects/sync-control.ts";
import type { Permit } from "../providers/outcome.ts";

/** A permission that ran out on its way, or could not be asked for, is asked for anew, so many times. */
const MOST_QUESTIONS = 5;
const ASK_AGAIN_MS = 100;

/**
 * Until when calls may start (ms since 1970): the longest permission that anybody in this isolate has got. A permission is
 * the deployment's, not a destination's.
 */
let permittedUntil = 0;

/** No permission is longer; what looks longer is a clock that was set back. */
const LONGEST_MS = 2_000;

/** What was permitted is not known any more: the deployment is another one. */
export const forgetGateLeases = (): void => {
  permittedUntil = 0;
};

function isPermitted(): boolean {
  const left = permittedUntil - Date.now();
  return left > 0 && left <= LONGEST_MS;
}

/** Whether calls may start: as long as the last answer holds, counted from when the question was sent. */
export class GateLease {
  readonly #request: (forMs: number) => Promise<MayRun>;
  #renewing: Promise<boolean> | null = null;

  /** @param question asks `SyncControl` for a permission that lasts at least `forMs` */
  constructor(question: (forMs: number) => Promise<MayRun>) {
    this.#request = question;
  }

  extend({ running, permitMs }: MayRun, sent: number): void {
    if (running && permitMs > 0) permittedUntil = sent + permitMs;
  }

  readonly holds: Permit = async () => {
    if (isPermitted()) return true;
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  };

  async #renew(): Promise<boolean> {
    // An answer that ran out on its way was asked for too short a time.
    for (let question = 1, longer = 0; question <= MOST_QUESTIONS; question++, longer = 100 * 2 ** question) {
      const sent = Date.now();
      const answer = await this.#request(longer).catch(() => null);
      if (answer === null) {
        await scheduler.wait(ASK_AGAIN_MS);
        continue;
      }
      this.extend(answer, sent);
      if (!answer.running) return false;
      // One that ran out on its way is void: a pause may have taken effect meanwhile.
      if (isPermitted()) return true;
    }
    return false;
  }
}
