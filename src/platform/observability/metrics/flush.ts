import { env, waitUntil } from "cloudflare:workers";
import { objectStub } from "../../durable/jurisdiction.ts";
import { remote } from "../../durable/rpc.ts";
import { textOf, warn } from "../log.ts";
import { hasCounts, type Key, keyOf, takeCounts } from "./isolate-counters.ts";

/**
 * Transfers counts from an isolate to the object `Metrics`. An isolate that dies loses its counts since the last flush.
 */

/** The method of the object `Metrics` that isolates call. */
export interface CounterStore {
  /**
   * Adds the counts of an isolate since its last batch. Idempotent by reporter and batch.
   * @param now whether they are written at once, which does not keep the object in memory
   */
  add(reporter: string, batch: number, counts: readonly (readonly [Key, number])[], now?: boolean): void;
}

/** Work behind an answer has 30 s. */
const FLUSH_INTERVAL_MS = 15_000;
/** A flush scheduled this long ago was lost with its request. Its counts are still in memory. */
const STALE_AFTER_MS = 30_000;

/** Created on first use: the runtime has no randomness before the first request. */
let reporter = "";
let batches = 0;
/** Sent but not acknowledged: resent under the same number, which counts once. */
let unacknowledged: { readonly number: number; readonly counts: ReadonlyMap<Key, number> } | null = null;
let scheduledAt = 0;

/** Schedules a flush within 15 s, behind the answer. Costs nothing while one is scheduled. */
export function flushCountsSoon(): void {
  if (!hasCounts()) return;
  const now = Date.now();
  if (Math.abs(now - scheduledAt) < STALE_AFTER_MS) return;
  scheduledAt = now;
  waitUntil(
    scheduler.wait(FLUSH_INTERVAL_MS).then(() => {
      scheduledAt = 0;
      return flushCounts();
    }),
  );
}

/** Sends the counts of this isolate. Never rejects: after a failure, the next flush resends them. */
export async function flushCounts(): Promise<void> {
  if (!unacknowledged && !hasCounts()) return;
  reporter ||= crypto.randomUUID();
  const again = unacknowledged !== null;
  const batch = unacknowledged ?? { number: ++batches, counts: takeCounts() };
  unacknowledged = batch;
  try {
    await remote<CounterStore>(objectStub(env, env.METRICS, "main")).add(reporter, batch.number, [...batch.counts]);
    if (unacknowledged === batch) unacknowledged = null;
  } catch (failure) {
    warn("counts-not-handed-in", { because: textOf(failure) });
    return;
  }
  // Only after an earlier failure can further counts have gathered.
  if (again) await flushCounts();
}

/** Stores the time of a run of the cron trigger, at once. Never rejects: the next run stores its own. */
export async function recordCronRun(now: number): Promise<void> {
  try {
    const run = [keyOf("sallyport_cron_last_run_timestamp_seconds", []), Math.floor(now / 1000)] as const;
    await remote<CounterStore>(objectStub(env, env.METRICS, "main")).add("cron", now, [run], true);
  } catch (failure) {
    warn("cron-run-not-recorded", { because: textOf(failure) });
  }
}
