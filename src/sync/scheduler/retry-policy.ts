import type { ObjectResult, SyncResult, Trouble } from "../../contracts/sync-tasks.ts";
import type { WorkOutcome } from "../../platform/durable/lease.ts";
import { mayHaveApplied } from "../../providers/outcome.ts";
import { FRESH_CAP_MS, isRefusalOfRights } from "../fresh-rights.ts";

/**
 * The retry policy of secret sync: the next step of a task by the failures of its objects. Pure. Read by associations
 * (completion of leases), the breaker and the tasks themselves. The first row that applies decides:
 *
 * Owed clean-ups count as failures.
 *
 *   a failure with code "paused"             -> again  (same attempt)
 *   a failure other than `client`            -> retry  (back-off, or the provider's wait)
 *   a refusal of fresh rights                -> retry  (back-off of at most 30 s)
 *   the task ran out of time                 -> again
 *   `client` failures                        -> park   (until a change, a set or the resync)
 *   no failure                               -> done
 */

/**
 * Failure codes that affect the whole destination. Other codes concern one name (`contended`, `name_held`,
 * `conflict`), are failures of this service, or carry their own pause (`throttled`, `paused`).
 */
const GENERAL: ReadonlySet<string> = new Set([
  "auth_failed",
  "provider_unavailable",
  "network_error",
  "deadline_exceeded",
  "unreadable_answer",
  "answer_too_large",
]);

/** Whether the provider was called for this object. */
export const isCall = ({ state, uncalled }: ObjectResult): boolean =>
  state !== "kept" && state !== "untouched" && state !== "retained" && !uncalled;

/** Whether a push may have been applied although it failed. */
export const isUnsure = (trouble: Trouble): boolean => trouble.outcome !== "internal" && mayHaveApplied(trouble);

/** Whether the call was not sent because syncing is paused. */
export const isPaused = (trouble: Trouble | undefined): boolean => trouble?.code === "paused";

/**
 * The completion of a task's lease, from the results of its objects: done, again, retry or park.
 * @param isFresh rights may not be in effect yet
 */
export function completionOf(result: SyncResult, isFresh: boolean): WorkOutcome {
  const troubles = [result.trouble, ...result.copies.flatMap(({ trouble, owed }) => [trouble, owed])].filter(
    (one) => one !== undefined,
  );
  if (troubles.some(isPaused)) return { kind: "again" };
  const passing = troubles.filter((one) => one.outcome !== "client");
  if (passing.length > 0) {
    const waits = passing.flatMap((one) => ("retryAfterMs" in one ? (one.retryAfterMs ?? []) : []));
    if (waits.length === 0) return { kind: "retry" };
    // Providers count a rate over all calls, so a throttled call pauses the whole destination.
    return { kind: "retry", afterMs: Math.max(...waits), all: passing.some((one) => one.code === "throttled") };
  }
  if (isFresh && troubles.some(isRefusalOfRights)) return { kind: "retry", capMs: FRESH_CAP_MS };
  if (result.unfinished) return { kind: "again" };
  // A refused configuration is retried after a change of it, a new version, another set, or by the resync.
  return troubles.length > 0 ? { kind: "park" } : { kind: "done" };
}

/** Whether the next association would fail in the same way, so that the breaker counts the failure. */
export const affectsDestination = ({ outcome, code }: Trouble): boolean =>
  GENERAL.has(code) && (outcome === "external" || outcome === "unknown" || code === "auth_failed");
