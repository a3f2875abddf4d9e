import { syncControl, syncDestination } from "../contracts/stubs.ts";
import type { SyncDestination } from "../objects/sync-destination.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { note } from "../platform/observability/audit/actions.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { settings } from "../platform/settings.ts";
import {
  isCall,
  type ObjectResult,
  type PollAnswer,
  type Setup,
  type SyncResult,
  type SyncTask,
} from "./association.ts";
import { GateLease } from "./gate-lease.ts";
import { type AppAccess, performTask } from "./task.ts";
import { measureTask } from "./task-metrics.ts";

/**
 * How many tasks one invocation performs at a time: it has so many connections. A call beyond them would wait inside the
 * runtime, and might leave when its permission has long run out.
 */
const MOST_AT_ONCE = 6;
/** An object that restarts is back soon; results are worth more patience than a question for work. */
const REPEAT_AFTER_MS = [200, 1_000, 3_000];
interface Options {
  /** How long new tasks are taken, in ms; those that are taken are finished. */
  readonly budgetMs: number;
  /** One association; default all that are ready. */
  readonly only?: string;
  /** How many tasks at a time, whatever the destination allows. */
  readonly atOnce?: number;
  /** What all that one invocation does for several destinations shares, so that it is asked for once. */
  readonly gateLease?: GateLease;
}

/** Does the work of several destinations beside each other; those that are too many for one invocation are rung for. */
export async function performAll(env: Env, destinations: readonly string[], budgetMs: number): Promise<void> {
  const some = destinations.slice(0, MOST_AT_ONCE);
  const atOnce = Math.floor(MOST_AT_ONCE / some.length);
  const gateLease = gateLeaseFor(env);
  await Promise.all(some.map((destination) => performWork(env, destination, { budgetMs, atOnce, gateLease })));
}

/** A run that is asking its object for tasks just now. Whoever comes meanwhile has it ask once more, and need not run itself. */
interface Asking {
  readonly since: number;
  again: boolean;
}

/** A run that asks for longer may be gone with its request, without a word. */
const GONE_MS = 5_000;

/** The runs of this isolate that are asking, by destination. */
const asking = new Map<string, Asking>();

/**
 * Does what a destination wants done: takes tasks, pushes or removes, hands in the results, until nothing is ready or the
 * budget is spent. Runs in a Worker; several may run for one destination, the leases keep them apart.
 */
export async function performWork(
  env: Env,
  destination: string,
  { budgetMs, only, atOnce = MOST_AT_ONCE, gateLease = gateLeaseFor(env) }: Options,
): Promise<void> {
  const other = only === undefined ? asking.get(destination) : undefined;
  if (other && Date.now() - other.since < GONE_MS) {
    other.again = true;
    return;
  }
  let end = Date.now() + budgetMs;
  const object = syncDestination(env, destination);
  const means = { env, object, settings: settings(env), permit: gateLease.holds, apps: appAccess(env) };
  let results: SyncResult[] = [];
  let flying = 0;
  let landed = Promise.withResolvers<void>();
  let places = only === undefined ? atOnce : 1;

  const fly = async (setup: Setup, task: SyncTask): Promise<void> => {
    flying++;
    const result = await performTask(means, setup, task);
    noteTask(destination, task, result);
    measureTask(destination, result);
    // Not in one expression: that would pick the list of now, which is handed in and replaced while the task runs.
    results.push(result);
    flying--;
    landed.resolve();
  };

  for (;;) {
    const sent = Date.now();
    const free = sent < end ? Math.max(0, places - flying) : 0;
    const handedIn = results;
    results = [];
    landed = Promise.withResolvers();
    const mine: Asking = { since: sent, again: false };
    if (free > 0 && only === undefined) asking.set(destination, mine);
    const turn = await takeTurn(object, handedIn, free, only)
      .catch((failure: unknown) => {
        if (flying === 0 && results.length === 0) throw failure;
        // Nothing new is begun, but what is under way is still handed in, and so is this.
        end = 0;
        results.unshift(...handedIn);
        return NOTHING;
      })
      .finally(() => {
        if (asking.get(destination) === mine) asking.delete(destination);
      });
    gateLease.extend(turn, sent);
    if (turn.setup) places = only === undefined ? Math.min(atOnce, turn.setup.atOnce) : 0;
    for (const task of turn.setup ? turn.tasks : []) if (turn.setup) void fly(turn.setup, task);
    if (flying === 0 && results.length === 0) {
      // A rate that lets the next one through soon is worth waiting for; the rest is the alarm's.
      const wait = mine.again ? 0 : turn.retryInMs;
      if (only !== undefined || !turn.running || wait === null || Date.now() + wait >= end) return;
      await scheduler.wait(Math.max(wait, 1));
    } else if (results.length === 0 && !mine.again) await landed.promise;
  }
}

/** What was done outside the service, or tried there; how many objects, never their names. */
function noteTask(destination: string, { claim, wish, mountUuid, secretName }: SyncTask, { copies }: SyncResult): void {
  if (!copies.some(isCall)) return;
  const count = (state: ObjectResult["state"]) => copies.filter((copy) => copy.state === state).length;
  const counts = { pushed: count("pushed"), removed: count("absent"), left: count("left"), failed: count("failed") };
  note("secret-synced", { destination, association: claim.id, wish, mount: mountUuid, secret: secretName, ...counts });
}

/** An answer that says nothing. */
const NOTHING: PollAnswer = { running: false, permitMs: 0, setup: null, tasks: [], retryInMs: null };

/** The object takes a result again as long as its lease holds, so one that was lost to its restart is handed in once more. */
async function takeTurn(
  object: Remote<SyncDestination>,
  results: readonly SyncResult[],
  places: number,
  only: string | undefined,
): Promise<PollAnswer> {
  for (let failures = 0; ; failures++) {
    try {
      const turn = await object.turn(results, places, only);
      // A refusal means that the service is sealed: nothing was leased, the alarm asks again.
      return "ok" in turn ? NOTHING : turn;
    } catch (failure) {
      const wait = results.length > 0 ? REPEAT_AFTER_MS[failures] : undefined;
      if (wait === undefined) throw failure;
      warn("turn-repeated", { results: results.length, because: textOf(failure) });
      await scheduler.wait(wait);
    }
  }
}

/** A permission for what one invocation does. */
export const gateLeaseFor = (env: Env): GateLease => new GateLease((forMs) => syncControl(env).mayRun(forMs));

/** Custom applications. Asked for anew each time: a key that was replaced must not be used by what begins after that. */
export function appAccess(env: Env): AppAccess {
  return (namespace, name) => syncControl(env).appCredentials(namespace, name);
}
