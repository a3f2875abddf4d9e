import type { CsiOutcome, CsiStep } from "../../contracts/csi-volumes.ts";
import { clusterRegistry } from "../../contracts/stubs.ts";
import { type Result, refuse } from "../../lib/result.ts";
import { refusalError, unwrap } from "../../platform/http/errors.ts";
import { outcomeBy } from "../outcome-by.ts";

/** The way to the node and back. */
const GRACE_MS = 10_000;

/**
 * Has the registry decide on a request, and waits until its plugin has done its part; null when none had to be asked.
 * @param begin asks the registry
 * @param deadlineMs for the plugin's part
 * @throws RequestError with the registry's or the plugin's refusal; 504 when the operation has not ended in time: it goes on, and
 *   the same request, when it comes again, waits for it again
 */
export async function carryOutCsi(
  env: Env,
  begin: () => Promise<Result<CsiStep>>,
  deadlineMs: number,
): Promise<CsiOutcome | null> {
  const until = Date.now() + deadlineMs + GRACE_MS;
  for (;;) {
    const step = unwrap(await begin());
    if (step.kind === "ready") return null;
    const { operation } = step;
    const outcome = await csiOutcome(env, operation, until, step.kind === "busy");
    if (step.kind === "busy") continue;
    if (outcome.refusal) throw refusalError(outcome.refusal);
    return outcome;
  }
}

/** Waits for an operation of which only its end is of interest. @throws RequestError as `carryOutCsi` */
export async function answered(env: Env, operation: string, deadlineMs: number): Promise<unknown> {
  const { refusal, result } = await csiOutcome(env, operation, Date.now() + deadlineMs + GRACE_MS, false);
  if (refusal) throw refusalError(refusal);
  return result;
}

async function csiOutcome(env: Env, operation: string, until: number, others: boolean): Promise<CsiOutcome> {
  const outcome = await outcomeBy(until, (waitMs, last) => clusterRegistry(env).csiOutcome(operation, waitMs, last));
  if (outcome) return outcome;
  throw refusalError(
    refuse(
      "timeout",
      others
        ? `operation ${operation} on this volume has not ended yet; nothing was changed`
        : `operation ${operation} has not ended in time: it goes on, and the same request waits for it again`,
    ),
  );
}
