import { syncControl, syncDestination } from "../contracts/stubs.ts";
import type { SyncDestinationApi } from "../contracts/sync-destination.ts";
import type { ObjectResult, PollAnswer, Setup, SyncResult, SyncTask } from "../contracts/sync-tasks.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { flushCountsSoon } from "../platform/observability/metrics/flush.ts";
import { count } from "../platform/observability/metrics/isolate-counters.ts";
import { settings } from "../platform/settings.ts";
import { GateLease } from "./gate-lease.ts";
import { identityAccess } from "./identity.ts";
import { isCall } from "./retry-policy.ts";
import { type AppAccess, performTask } from "./task.ts";

/**
 * The Worker's side of secret sync: polls a destination for tasks, performs them in parallel and reports the results.
 * Runs in requests that changed the desired state, and in the consumer of the queue `sync-work`.
 */

/**
 * Tasks in parallel per invocation: the limit of simultaneous connections (Cloudflare Workers, "Limits"). A call beyond
 * it would wait inside the runtime, possibly past the end of its gate lease.
 */
const MOST_AT_ONCE = 6;
/** Delays before a poll with results is repeated. An object that restarts is available again soon. */
const REPEAT_AFTER_MS = [200, 1_000, 3_000];

interface Options {
  /** How long new tasks are leased, in ms; leased tasks are finished. */
  readonly budgetMs: number;
  /** The id of one association; default all that are ready. */
  readonly only?: string;
  /** The most tasks at a time, in addition to the destination's own limit. */
  readonly atOnce?: number;
  /** A gate lease shared by the destinations of one invocation. */
  readonly gateLease?: GateLease;
}

/** Performs the work of several destinations in parallel. The alarms of further destinations send their own wake-ups. */
export async function performAll(env: Env, destinations: readonly string[], budgetMs: number): Promise<void> {
  const some = destinations.slice(0, MOST_AT_ONCE);
  const atOnce = Math.floor(MOST_AT_ONCE / some.length);
  const gateLease = gateLeaseFor(env);
  await Promise.all(some.map((destination) => performWork(env, destination, { budgetMs, atOnce, gateLease })));
}

/** A poll in flight. A concurrent caller makes this run poll again instead of starting its own. */
interface PendingPoll {
  readonly since: number;
  again: boolean;
}

/** A poll that takes longer counts as lost with its request. */
const POLL_LOST_MS = 5_000;

/** The polls in flight of this isolate, by destination. */
const polls = new Map<string, PendingPoll>();

/**
 * Performs the work of one destination: polls for tasks, performs them and reports the results, until no task is ready
 * or the budget is spent. Several Workers may run for one destination; leases keep their tasks apart.
 */
export async function performWork(
  env: Env,
  destination: string,
  { budgetMs, only, atOnce = MOST_AT_ONCE, gateLease = gateLeaseFor(env) }: Options,
): Promise<void> {
  const other = only === undefined ? polls.get(destination) : undefined;
  if (other && Date.now() - other.since < POLL_LOST_MS) {
    other.again = true;
    return;
  }
  let end = Date.now() + budgetMs;
  const object = syncDestination(env, destination);
  const dependencies = {
    env,
    object,
    settings: settings(env),
    permit: gateLease.holds,
    apps: appAccess(env),
    identities: identityAccess(env),
  };
  let results: SyncResult[] = [];
  let running = 0;
  let completed = Promise.withResolvers<void>();
  let slots = only === undefined ? atOnce : 1;

  const start = async (setup: Setup, task: SyncTask): Promise<void> => {
    running++;
    const result = await performTask(dependencies, setup, task);
    auditTask(destination, task, result);
    countTask(destination, result);
    // A separate statement, because `results` is replaced by polls while the task runs.
    results.push(result);
    running--;
    completed.resolve();
  };

  for (;;) {
    const sent = Date.now();
    const free = sent < end ? Math.max(0, slots - running) : 0;
    const reported = results;
    results = [];
    completed = Promise.withResolvers();
    const mine: PendingPoll = { since: sent, again: false };
    if (free > 0 && only === undefined) polls.set(destination, mine);
    const answer = await poll(object, reported, free, only)
      .catch((failure: unknown) => {
        if (running === 0 && results.length === 0) throw failure;
        // No new task is begun; running tasks are still reported, together with these results.
        end = 0;
        results.unshift(...reported);
        return EMPTY;
      })
      .finally(() => {
        if (polls.get(destination) === mine) polls.delete(destination);
      });
    gateLease.extend(answer, sent);
    if (answer.setup) slots = only === undefined ? Math.min(atOnce, answer.setup.atOnce) : 0;
    for (const task of answer.setup ? answer.tasks : []) if (answer.setup) void start(answer.setup, task);
    if (running === 0 && results.length === 0) {
      // Waits for a rate limit that ends within the budget; later work is left to the alarm.
      const wait = mine.again ? 0 : answer.retryInMs;
      if (only !== undefined || !answer.running || wait === null || Date.now() + wait >= end) return;
      await scheduler.wait(Math.max(wait, 1));
    } else if (results.length === 0 && !mine.again) await completed.promise;
  }
}

/** Records a task that called the provider in the audit log: numbers of objects, never their names. */
function auditTask(
  destination: string,
  { claim, wish, mountUuid, secretName }: SyncTask,
  { copies }: SyncResult,
): void {
  if (!copies.some(isCall)) return;
  const numberOf = (state: ObjectResult["state"]) => copies.filter((copy) => copy.state === state).length;
  const counts = {
    pushed: numberOf("pushed"),
    removed: numberOf("absent"),
    left: numberOf("left"),
    failed: numberOf("failed"),
  };
  recordAction("secret-synced", {
    destination,
    association: claim.id,
    wish,
    mount: mountUuid,
    secret: secretName,
    ...counts,
  });
}

/** Counts a completed task and its objects, by outcome. */
function countTask(destination: string, { trouble, copies, unfinished }: SyncResult): void {
  const failed = trouble ?? copies.find((copy) => copy.trouble)?.trouble;
  const outcome = failed ? (failed.code === "paused" ? "paused" : failed.outcome) : unfinished ? "unfinished" : "ok";
  count("sallyport_sync_tasks_total", destination, outcome);
  for (const { state } of copies) count("sallyport_sync_objects_total", destination, state);
  flushCountsSoon();
}

/** A poll answer without tasks. */
const EMPTY: PollAnswer = { running: false, permitMs: 0, setup: null, tasks: [], retryInMs: null };

/** Polls the object. A poll with results is repeated, since the object accepts a result for as long as its lease holds. */
async function poll(
  object: Remote<SyncDestinationApi>,
  results: readonly SyncResult[],
  slots: number,
  only: string | undefined,
): Promise<PollAnswer> {
  for (let failures = 0; ; failures++) {
    try {
      const answer = await object.turn(results, slots, only);
      // A refusal means that the service is sealed: no task was leased, and the alarm sends another wake-up.
      return "ok" in answer ? EMPTY : answer;
    } catch (failure) {
      const wait = results.length > 0 ? REPEAT_AFTER_MS[failures] : undefined;
      if (wait === undefined) throw failure;
      warn("turn-repeated", { results: results.length, because: textOf(failure) });
      await scheduler.wait(wait);
    }
  }
}

/** The gate lease for one invocation. */
export const gateLeaseFor = (env: Env): GateLease => new GateLease((forMs) => syncControl(env).mayRun(forMs));

/** Reads custom applications. Never cached: calls that begin after a key was replaced must use the new key. */
export function appAccess(env: Env): AppAccess {
  return (namespace, name) => syncControl(env).appCredentials(namespace, name);
}
