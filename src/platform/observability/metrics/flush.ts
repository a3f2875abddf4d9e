import { env, waitUntil } from "cloudflare:workers";
import { remote } from "../../durable/rpc.ts";
import { textOf, warn } from "../log.ts";
import { hasCounts, type Key, takeCounts } from "./isolate-counters.ts";

/** How counts get from an isolate to the object that keeps them. An isolate that dies loses what it has counted since. */

/** The object `Metrics`, as far as an isolate calls it. */
interface CounterStore {
  add(reporter: string, batch: number, counts: readonly (readonly [Key, number])[]): void;
}

const FLUSH_INTERVAL_MS = 1_000;
/** Whoever has waited for so long died with its request, without a word. What it was to hand in is still here. */
const STALE_AFTER_MS = 3_000;

/** Made when first needed: there is no randomness before the first request. */
let reporter = "";
let batches = 0;
/** Handed in, but nobody knows whether it has arrived: handed in again under the same number, which counts once. */
let unacknowledged: { readonly number: number; readonly counts: ReadonlyMap<Key, number> } | null = null;
let scheduledAt = 0;

/** Has what was counted handed in within about a second, behind the answer. Costs nothing while that is under way. */
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

/** Hands in what this isolate has counted. Never rejects: what does not arrive is handed in with the next. */
export async function flushCounts(): Promise<void> {
  if (!unacknowledged && !hasCounts()) return;
  reporter ||= crypto.randomUUID();
  const again = unacknowledged !== null;
  const batch = unacknowledged ?? { number: ++batches, counts: takeCounts() };
  unacknowledged = batch;
  try {
    await remote<CounterStore>(env.METRICS.getByName("main")).add(reporter, batch.number, [...batch.counts]);
    if (unacknowledged === batch) unacknowledged = null;
  } catch (failure) {
    warn("counts-not-handed-in", { because: textOf(failure) });
    return;
  }
  // Only what has failed before has let more gather than this request can know of.
  if (again) await flushCounts();
}
