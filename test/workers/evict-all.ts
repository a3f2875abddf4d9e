import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { objectIds } from "./created-objects.ts";
import { NAMESPACES } from "./object-namespaces.ts";

export const ALL: readonly DurableObjectNamespace[] = [
  ...Object.values(NAMESPACES),
  env.READ_REPLICA,
  env.EVENT_RELAY,
  env.AUDIT_COLLECTOR,
  env.METRICS,
] as unknown as readonly DurableObjectNamespace[];

/** As for other conditions that tests wait for. */
const PATIENCE_MS = 30_000;

/**
 * Loses the memory of an object. The runtime waits some seconds for the end of its calls, which may last longer on a busy
 * machine.
 * @param settle ends what holds the object in memory; called before each attempt
 * @returns how often it may have lost its memory: an attempt that was given up may still have an effect
 */
export async function evictObject(object: DurableObjectStub, settle?: () => Promise<unknown>): Promise<number> {
  const end = performance.now() + PATIENCE_MS;
  for (let attempts = 1; ; attempts++) {
    try {
      await settle?.();
      await evictDurableObject(object);
      return attempts;
    } catch (failure) {
      if (!/still has active references/.test(String(failure)) || performance.now() > end) throw failure;
    }
  }
}

/** An object with a call under way is evicted after it: by then, the next request may have begun. */
const EVICTED_WITHIN_MS = 1_000;

/** Loses the memory of every object, as the platform does between any two requests. @returns how many were in memory */
export async function evictAll(): Promise<number> {
  const ids = ALL.flatMap((namespace) => objectIds(namespace).map((id) => namespace.get(id)));
  const evicted = await Promise.all(
    ids.map((object) =>
      Promise.race([
        // One that is not in memory has nothing to lose; one that stays busy is left.
        evictDurableObject(object).then(
          () => 1,
          (failure: Error) => {
            if (!/not currently running|still has active references/.test(failure.message)) throw failure;
            return 0;
          },
        ),
        scheduler.wait(EVICTED_WITHIN_MS).then(() => 0),
      ]),
    ),
  );
  return evicted.reduce<number>((sum, one) => sum + one, 0);
}
