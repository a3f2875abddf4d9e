import worker from "../../src/worker.ts";

/** Long enough for a queue message to arrive (vitest.config.ts: `maxBatchTimeout`) and wake a Worker. */
const DELIVERY_MS = 60;
/** A Worker that waits for a provider that is slow on purpose is not waited for any longer. */
const PATIENCE_MS = 1_000;
/** Providers that answer late on purpose, and a busy machine, need real time. */
const STILL_MS = 20_000;

const running = new Set<Promise<unknown>>();
const wait = scheduler.wait.bind(scheduler);
const { queue } = worker;

/** Notes the work that queue messages start. Called once per file. */
export function noteRunningWorkers(): void {
  worker.queue = (batch, env, exec) =>
    queue(batch, env, {
      ...exec,
      waitUntil: (promise) => {
        running.add(promise);
        void promise.finally(() => running.delete(promise)).catch(() => undefined);
        exec.waitUntil(promise);
      },
    });
}

/** Waits until no Worker performs work, so that a test does not move the clock while a result is on its way. */
export async function workersRest(): Promise<void> {
  await wait(DELIVERY_MS);
  await Promise.race([Promise.allSettled(running), wait(PATIENCE_MS)]);
}

/**
 * Checks, and lets time pass with `pass` until the check holds. After `rounds` checks the clock stands still.
 * @throws the check's failure, when real time has passed as well
 */
export async function checkInRounds(
  rounds: number,
  check: () => Promise<void> | void,
  pass: (round: number) => Promise<unknown>,
): Promise<void> {
  for (let round = 1; round < rounds; round++) {
    try {
      return await check();
    } catch {
      await pass(round);
      await workersRest();
    }
  }
  for (let waited = 0; ; waited += STILL_MS / 100) {
    try {
      return await check();
    } catch (failure) {
      if (waited >= STILL_MS) throw failure;
      await wait(STILL_MS / 100);
    }
  }
}
