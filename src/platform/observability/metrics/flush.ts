import { env, waitUntil } from "cloudflare:workers";
import { remote } from "../../durable/rpc.ts";
import { textOf, warn } from "../log.ts";
import { anyCounted, type Key, takeCounts } from "./isolate-counters.ts";

/** How counts get from an isolate to the object that keeps them. An isolate that dies loses what it has counted since. */

/** The object `Metrics`, as far as an isolate calls it. */
interface CountKeeper {
  add(reporter: string, batch: number, counts: readonly (readonly [Key, number])[]): void;
}

const EVERY_MS = 1_000;
/** Whoever has waited for so long died with its request, without a word. What it was to hand in is still here. */
const GONE_MS = 3_000;

/** Made when first needed: there is no randomness before the first request. */
let reporter = "";
let batches = 0;
/** Handed in, but nobody knows whether it has arrived: handed in again under the same number, which counts once. */
let unsure: { readonly number: number; readonly counts: ReadonlyMap<Key, number> } | null = null;
let waitingSince = 0;

/** Has what was counted handed in within about a second, behind the answer. Costs nothing while that is under way. */
export function handInSoon(): void {
  if (!anyCounted()) return;
  const now = Date.now();
  if (Math.abs(now - waitingSince) < GONE_MS) return;
  waitingSince = now;
  waitUntil(
    scheduler.wait(EVERY_MS).then(() => {
      waitingSince = 0;
      return handIn();
    }),
  );
}

/** Hands in what this isolate has counted. Never rejects: what does not arrive is handed in with the next. */
export async function handIn(): Promise<void> {
  if (!unsure && !anyCounted()) return;
  reporter ||= crypto.randomUUID();
  const again = unsure !== null;
  const batch = unsure ?? { number: ++batches, counts: takeCounts() };
  unsure = batch;
  try {
    await remote<CountKeeper>(env.METRICS.getByName("main")).add(reporter, batch.number, [...batch.counts]);
    if (unsure === batch) unsure = null;
  } catch (failure) {
    warn("counts-not-handed-in", { because: textOf(failure) });
    return;
  }
  // Only what has failed before has let more gather than this request can know of.
  if (again) await handIn();
}
