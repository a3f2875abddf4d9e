import { settings } from "../env.ts";
import { textOf, warn } from "../log.ts";
import { type Remote, syncControl, syncDestination } from "../objects/stubs.ts";
import type { SyncDestination } from "../objects/sync-destination.ts";
import type { Permit } from "../providers/outcome.ts";
import type { Setup, SyncResult, SyncTask, Turn } from "./association.ts";
import { type AppAccess, performTask } from "./task.ts";

/** How many tasks one Worker performs at a time for one destination, whatever that allows. */
const MOST_AT_ONCE = 6;
const REPEAT_AFTER_MS = 200;

interface Options {
  /** How long new tasks are taken, in ms; those that are taken are finished. */
  readonly budgetMs: number;
  /** One association; default all that are ready. */
  readonly only?: string;
}

/**
 * Does what a destination wants done: takes tasks, pushes or removes, hands in the results, until nothing is ready or the
 * budget is spent. Runs in a Worker; several may run for one destination, the leases keep them apart.
 */
export async function performWork(env: Env, destination: string, { budgetMs, only }: Options): Promise<void> {
  const end = Date.now() + budgetMs;
  const object = syncDestination(env, destination);
  const permission = new Permission(env);
  const apps = appAccess(env);
  let results: SyncResult[] = [];
  let flying = 0;
  let awake = Promise.withResolvers<void>();
  let places = only === undefined ? MOST_AT_ONCE : 1;

  const fly = async (setup: Setup, task: SyncTask): Promise<void> => {
    flying++;
    results.push(
      await performTask({ env, object, settings: settings(env), permit: permission.holds, apps }, setup, task),
    );
    flying--;
    awake.resolve();
  };

  for (;;) {
    const sent = Date.now();
    const free = sent < end ? Math.max(0, places - flying) : 0;
    const handedIn = results;
    results = [];
    const turn = await takeTurn(object, handedIn, free, only);
    permission.granted(turn, sent);
    if (turn.setup) places = only === undefined ? Math.min(MOST_AT_ONCE, turn.setup.atOnce) : 0;
    for (const task of turn.setup ? turn.tasks : []) if (turn.setup) void fly(turn.setup, task);
    if (flying === 0 && results.length === 0) {
      // A rate that lets the next one through soon is worth waiting for; the rest is the alarm's.
      const wait = turn.retryInMs;
      if (only !== undefined || !turn.running || wait === null || Date.now() + wait >= end) return;
      await scheduler.wait(Math.max(wait, 1));
      continue;
    }
    if (results.length === 0) await awake.promise;
    awake = Promise.withResolvers<void>();
  }
}

/** The object takes a result again as long as its lease holds, so one that was lost to its restart is handed in once more. */
async function takeTurn(
  object: Remote<SyncDestination>,
  results: readonly SyncResult[],
  places: number,
  only: string | undefined,
): Promise<Turn> {
  const none: Turn = { running: false, permitMs: 0, setup: null, tasks: [], retryInMs: null };
  const take = async (): Promise<Turn> => {
    const turn = await object.turn(results, places, only);
    // A refusal means that the service is sealed: nothing was leased, the alarm asks again.
    return "ok" in turn ? none : turn;
  };
  try {
    return await take();
  } catch (failure) {
    if (results.length === 0) throw failure;
    warn("turn-repeated", { results: results.length, because: textOf(failure) });
    await scheduler.wait(REPEAT_AFTER_MS);
    return take();
  }
}

/** Whether calls may start: as long as the last answer holds, counted from when the question was sent. */
export class Permission {
  readonly #env: Env;
  #until = 0;
  #asking: Promise<boolean> | null = null;

  constructor(env: Env) {
    this.#env = env;
  }

  granted(turn: Pick<Turn, "running" | "permitMs">, sent: number): void {
    if (turn.running && turn.permitMs > 0) this.#until = sent + turn.permitMs;
  }

  readonly holds: Permit = async () => {
    if (Date.now() < this.#until) return true;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  };

  async #ask(): Promise<boolean> {
    const sent = Date.now();
    const answer = await syncControl(this.#env).mayRun();
    this.granted(answer, sent);
    return answer.running;
  }
}

/** Custom applications, each asked for once. */
export function appAccess(env: Env): AppAccess {
  const asked = new Map<string, ReturnType<AppAccess>>();
  return (namespace, name) => {
    const key = `${namespace} ${name}`;
    const answer = asked.get(key) ?? syncControl(env).appCredentials(namespace, name);
    asked.set(key, answer);
    return answer;
  };
}
