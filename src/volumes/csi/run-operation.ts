import type { CsiOutcome, CsiStep } from "../../contracts/csi-volumes.ts";
import { type Result, refuse } from "../../lib/result.ts";
import { refusalError, unwrap } from "../../platform/http/errors.ts";
import { clusterRegistry } from "../../rpc/stubs.ts";
import { pollOutcome } from "../poll-outcome.ts";

/** Allowance for the round trip between registry and node. */
const GRACE_MS = 10_000;

/**
 * Runs a CSI operation: begins it in the registry and waits for its outcome; null when no plugin call was needed.
 * @param begin calls the registry
 * @param deadlineMs deadline of the plugin
 * @throws RequestError with the refusal of the registry or the plugin; 504 when the operation is still running at the
 *   deadline. It goes on, and a retry of the same request waits for it.
 */
export async function runCsiOperation(
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

/** Waits for an operation's result. @throws RequestError as `runCsiOperation` */
export async function answered(env: Env, operation: string, deadlineMs: number): Promise<unknown> {
  const { refusal, result } = await csiOutcome(env, operation, Date.now() + deadlineMs + GRACE_MS, false);
  if (refusal) throw refusalError(refusal);
  return result;
}

async function csiOutcome(env: Env, operation: string, until: number, others: boolean): Promise<CsiOutcome> {
  const outcome = await pollOutcome(until, (waitMs, last) => clusterRegistry(env).csiOutcome(operation, waitMs, last));
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
