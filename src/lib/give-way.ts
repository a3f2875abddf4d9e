interface Clock {
  now(): number;
  wait(ms: number): Promise<void>;
}

/** A pause that lasts this much longer than asked shows that the thread was busy with other work. */
const BUSY_MS = 3;
/** A rest, in times of the work before it. */
const REST = 2;
const MAX_REST_MS = 500;

/**
 * Leaves the thread to other work for a while, if there is some. Call between the steps of a long task: beside others it
 * then takes about a third of the thread, and alone nearly all of it.
 * @param workedMs how long the last step took
 */
export async function giveWay(workedMs: number, clock: Clock = runtime): Promise<void> {
  const before = clock.now();
  await clock.wait(1);
  if (clock.now() - before > BUSY_MS) await clock.wait(Math.min(REST * workedMs, MAX_REST_MS));
}

const runtime: Clock = { now: () => Date.now(), wait: (ms) => scheduler.wait(ms) };
