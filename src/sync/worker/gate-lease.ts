import type { MayRun } from "../../contracts/sync-control.ts";
import type { Permit } from "../../providers/outcome.ts";

/** Attempts to renew a lease that expired on the way or failed. */
const MAX_ATTEMPTS = 5;
const RETRY_MS = 100;

/** End of the latest lease of this isolate (ms since 1970). A lease covers the deployment, not one destination. */
let permittedUntil = 0;

/** The longest lease. A longer remaining time means that the clock was set back. */
const MAX_LEASE_MS = 2_000;

/** Drops the lease of this isolate. For tests, which replace the deployment. */
export const forgetGateLeases = (): void => {
  permittedUntil = 0;
};

function isPermitted(): boolean {
  const left = permittedUntil - Date.now();
  return left > 0 && left <= MAX_LEASE_MS;
}

/**
 * The lease of a Worker to start provider calls: valid for the granted time, counted from when the request was sent.
 * Shared by the isolate. Costs one RPC to `SyncControl` per renewal; concurrent callers share it.
 */
export class GateLease {
  #renewing: Promise<boolean> | null = null;

  /** @param request requests a lease of at least `forMs` from `SyncControl` */
  constructor(private readonly request: (forMs: number) => Promise<MayRun>) {}

  /** Records a lease granted elsewhere, such as by a poll. @param sent when the request was sent */
  extend({ running, permitMs }: MayRun, sent: number): void {
    if (running && permitMs > 0) permittedUntil = sent + permitMs;
  }

  /** Whether calls may start now; renews an expired lease first. False while syncing is paused. */
  readonly holds: Permit = async () => {
    if (isPermitted()) return true;
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return this.#renewing;
  };

  async #renew(): Promise<boolean> {
    // A lease that expired on the way is requested again for a longer time.
    for (let attempt = 1, longer = 0; attempt <= MAX_ATTEMPTS; attempt++, longer = 100 * 2 ** attempt) {
      const sent = Date.now();
      const answer = await this.request(longer).catch(() => null);
      if (answer === null) {
        await scheduler.wait(RETRY_MS);
        continue;
      }
      this.extend(answer, sent);
      if (!answer.running) return false;
      // A lease that expired on the way is void: a pause may have taken effect in the meantime.
      if (isPermitted()) return true;
    }
    return false;
  }
}
