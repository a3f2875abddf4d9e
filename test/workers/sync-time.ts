import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { ShiftedClock } from "./clock.ts";
import { checkInRounds } from "./running-workers.ts";

let clock: ShiftedClock | undefined;

/** Moves the clock of all objects and Workers for one test; files that use it set `clock.moves`. */
export const time = {
  begin(): void {
    clock = new ShiftedClock();
  },
  pass(ms: number): void {
    clock?.advance(ms);
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
