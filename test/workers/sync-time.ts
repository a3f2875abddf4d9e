import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import { checkInRounds } from "./running-workers.ts";

/** How far the clock of all objects and Workers is ahead, in ms. */
let ahead = 0;

/** Moves the clock of all objects and Workers for one test; files that use it set `clock.moves`. */
export const time = {
  begin(): void {
    ahead = 0;
    const real = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => real() + ahead);
  },
  pass(ms: number): void {
    ahead += ms;
  },
};

/**
 * Advances time until `check` holds, without requests.
 * @param destinations whose alarms ring, each as `<type>/<name>`; @param mounts the same for stores, by uuid
 */
export async function byItself(
  check: () => Promise<void>,
  destinations: readonly string[],
  { mounts = [], stepMs = 10_000 }: { mounts?: readonly string[]; stepMs?: number } = {},
): Promise<void> {
  await checkInRounds(60, check, async (round) => {
    if (round > 3) time.pass(stepMs);
    // One that a test kills meanwhile has its alarm again.
    for (const mount of mounts) await runDurableObjectAlarm(env.KV_STORE.getByName(mount)).catch(() => false);
    for (const name of destinations)
      await runDurableObjectAlarm(env.SYNC_DESTINATION.getByName(name)).catch(() => false);
  });
}
