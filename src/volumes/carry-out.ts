import type { Outcome, Search, Step } from "../contracts/host-volumes.ts";
import { clusterRegistry } from "../contracts/stubs.ts";
import { type Result, refuse } from "../lib/result.ts";
import { refusalError, unwrap } from "../platform/http/errors.ts";
import { SEARCH_BEGIN } from "./host/placement.ts";
import { outcomeBy } from "./outcome-by.ts";

/** The way to the node and back. */
const GRACE_MS = 10_000;

/**
 * Has the registry decide on a request, and waits until the node has done its part.
 * @param begin asks the registry
 * @param deadlineMs for the node's part
 * @throws RequestError with the registry's or the node's refusal; 504 when the operation has not ended in time: it goes on, and
 *   the same request, when it comes again, waits for it again, and has the node asked where it does not know what came of it
 */
export async function carryOut(
  env: Env,
  begin: (search: Search) => Promise<Result<Step>>,
  deadlineMs: number,
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
    const outcome = await outcomeBy(until, (waitMs, last) =>
      clusterRegistry(env).volumeOperation(operation, waitMs, last),
    );
    if (!outcome) throw refusalError(refuse("timeout", await notEnded(env, step)));
    if (step.kind === "busy") continue;
    if (outcome.refusal) throw refusalError(outcome.refusal);
    return outcome;
  }
}

async function notEnded(env: Env, { kind, operation }: Step & { readonly operation: string }): Promise<string> {
  if (kind === "busy") return `operation ${operation} on this volume has not ended yet; nothing was changed`;
  const doubt = await clusterRegistry(env)
    .volumeDoubt(operation)
    .catch(() => null);
  return doubt === null
    ? `operation ${operation} has not ended in time: it goes on, and the same request waits for it again`
    : `operation ${operation}: what came of it is not known: ${doubt}; the node is asked again, and at once by the same request`;
}
