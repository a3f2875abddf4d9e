import { refusalError, unwrap } from "../http/errors.ts";
import { clusterRegistry } from "../objects/stubs.ts";
import { type Result, refuse } from "../result.ts";
import type { Outcome, Step } from "./host-volumes.ts";
import { SEARCH_BEGIN, type Search } from "./placement.ts";

/** A request asks whether its operation has ended, for this long at a time: who is gone stops asking. */
const ONE_WAIT_MS = 2_000;
/** The way to the node and back. */
const GRACE_MS = 10_000;

/**
 * Has the registry decide on a request, and waits until the node has done its part.
 * @param begin asks the registry
 * @param deadlineMs for the node's part
 * @throws RequestError with the registry's or the node's refusal; 504 when the operation has not ended in time: it goes on, and
 *   the same request, when it comes again, waits for it again
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
    const outcome = await ended(env, step.operation, until);
    if (!outcome) throw refusalError(refuse("timeout", notEnded(step)));
    if (step.kind === "busy") continue;
    if (outcome.refusal) throw refusalError(outcome.refusal);
    return outcome;
  }
}

const notEnded = ({ kind, operation }: Step & { readonly operation: string }): string =>
  kind === "busy"
    ? `operation ${operation} on this volume has not ended yet; nothing was changed`
    : `operation ${operation} has not ended in time: it goes on, and the same request waits for it again`;

async function ended(env: Env, operation: string, until: number): Promise<Outcome | null> {
  for (;;) {
    const left = until - Date.now();
    const wait = Math.max(0, Math.min(left, ONE_WAIT_MS));
    try {
      const outcome = await clusterRegistry(env).volumeOperation(operation, wait, left <= ONE_WAIT_MS);
      if (outcome) return outcome;
    } catch {
      // The registry restarts; what it has written down is there when it is back.
      await scheduler.wait(Math.min(wait, 200));
    }
    if (left <= ONE_WAIT_MS) return null;
  }
}
