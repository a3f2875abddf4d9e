import type { CsiOutcome, CsiStep } from "../../contracts/csi-volumes.ts";
import type { Result } from "../../lib/result.ts";
import { refusalError, unwrap } from "../../platform/http/errors.ts";
import { clusterRegistry } from "../../rpc/stubs.ts";
import { GRACE_MS, notEnded, pollOutcome } from "../poll-outcome.ts";

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
    const outcome = await csiOutcome(env, step, until);
    if (step.kind === "busy") continue;
    if (outcome.refusal) throw refusalError(outcome.refusal);
    return outcome;
  }
}

/** Waits for an operation's result. @throws RequestError as `runCsiOperation` */
export async function answered(env: Env, operation: string, deadlineMs: number): Promise<unknown> {
  const { refusal, result } = await csiOutcome(env, { kind: "begun", operation }, Date.now() + deadlineMs + GRACE_MS);
  if (refusal) throw refusalError(refusal);
  return result;
}

async function csiOutcome(
  env: Env,
  { kind, operation }: Exclude<CsiStep, { kind: "ready" }>,
  until: number,
): Promise<CsiOutcome> {
  const outcome = await pollOutcome(until, (waitMs, last) => clusterRegistry(env).csiOutcome(operation, waitMs, last));
  if (!outcome) throw refusalError(notEnded(kind, operation));
  return outcome;
}
