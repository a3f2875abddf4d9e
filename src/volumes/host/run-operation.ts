import { waitUntil } from "cloudflare:workers";
import type { Outcome, Search, Step } from "../../contracts/host-volumes.ts";
import { type Refusal, type Result, refuse } from "../../lib/result.ts";
import { refusalError, unwrap } from "../../platform/http/errors.ts";
import { clusterRegistry } from "../../rpc/stubs.ts";
import { GRACE_MS, notEnded, pollOutcome } from "../poll-outcome.ts";
import { SEARCH_BEGIN } from "./placement.ts";

/**
 * Runs a host-volume operation: begins it in the registry and waits until the node has completed it.
 * @param begin calls the registry
 * @param deadlineMs deadline of the node
 * @param caller aborts when the caller has left; the operation goes on, and a repeated request joins it
 * @throws RequestError with the refusal of the registry or the node; 504 when the operation is still running at the
 *   deadline. It goes on, and a retry of the same request waits for it. When its outcome is unknown, the retry makes
 *   the registry query the node.
 */
export async function runHostVolumeOperation(
  env: Env,
  begin: (search: Search) => Promise<Result<Step>>,
  deadlineMs: number,
  caller: AbortSignal,
): Promise<Omit<Outcome, "refusal">> {
  const until = Date.now() + deadlineMs + GRACE_MS;
  for (let search = SEARCH_BEGIN; ; ) {
    const step = unwrap(await begin(search));
    if (step.kind === "done") return { volume: null, index: step.index };
    if (step.kind === "searching") {
      search = step.search;
      continue;
    }
    const { operation } = step;
    const leave = () =>
      waitUntil(
        clusterRegistry(env)
          .leaveVolumeOperation(operation)
          .catch(() => undefined),
      );
    caller.addEventListener("abort", leave);
    const outcome = await pollOutcome(
      until,
      (waitMs, last) => clusterRegistry(env).volumeOperation(operation, waitMs, last),
      caller,
    );
    caller.removeEventListener("abort", leave);
    if (!outcome) throw refusalError(await lateOf(env, step));
    if (step.kind === "busy") continue;
    if (outcome.refusal) throw refusalError(outcome.refusal);
    return outcome;
  }
}

async function lateOf(env: Env, { kind, operation }: Extract<Step, { operation: string }>): Promise<Refusal> {
  const doubt =
    kind === "busy"
      ? null
      : await clusterRegistry(env)
          .volumeDoubt(operation)
          .catch(() => null);
  if (doubt === null) return notEnded(kind, operation);
  const retry = "the node is asked again, and at once by the same request";
  return refuse("timeout", `operation ${operation}: its outcome is unknown: ${doubt}; ${retry}`);
}
