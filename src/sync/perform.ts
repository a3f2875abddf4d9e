import { kvStore, syncControl, syncDestination } from "../contracts/stubs.ts";
import type { SyncDestinationApi } from "../contracts/sync-destination.ts";
import type { ObjectResult, PollAnswer, Setup, SyncResult, SyncTask } from "../contracts/sync-tasks.ts";
import { mapLimit } from "../lib/map-limit.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { flushCountsSoon } from "../platform/observability/metrics/flush.ts";
import { count } from "../platform/observability/metrics/isolate-counters.ts";
import { settings } from "../platform/settings.ts";
import { GateLease } from "./gate-lease.ts";
import { identityAccess } from "./identity.ts";
import { isCall } from "./retry-policy.ts";
import { type AppAccess, performTask, type SecretRead, TASK_MS, type TaskDependencies } from "./task.ts";

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

/** The wait for further tasks that complete at the same time, before their results are reported together. */
const COALESCE_MS = 1;

interface Options {
  /** How long new tasks are leased, in ms; leased tasks are finished. */
  readonly budgetMs: number;
  /** The id of one association; default all that are ready. */
  readonly only?: string;
  /** The connections shared by the destinations of one invocation. */
  readonly connections?: Connections;
  /** A gate lease shared by the destinations of one invocation. */
  readonly gateLease?: GateLease;
}

/** The connections of one invocation, in equal parts to the destinations that it works for at the moment. */
class Connections {
  #users = 0;

  share(): number {
    return Math.max(1, Math.floor(MOST_AT_ONCE / Math.max(1, this.#users)));
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    this.#users++;
    try {
      return await work();
    } finally {
      this.#users--;
    }
  }
}

/**
 * Performs the work of several destinations, as many in parallel as there are connections. A destination that is done
 * leaves its connections to the others. The alarms of destinations not begun in time send their own wake-ups.
 */
export async function performAll(env: Env, destinations: readonly string[], budgetMs: number): Promise<void> {
  const shared = { connections: new Connections(), gateLease: gateLeaseFor(env) };
  const end = Date.now() + budgetMs;
  const perform = (destination: string) => performWork(env, destination, { budgetMs: end - Date.now(), ...shared });
  await mapLimit(destinations, MOST_AT_ONCE, perform, () => Date.now() < end);
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
export async function performWork(env: Env, destination: string, options: Options): Promise<void> {
  const other = options.only === undefined ? polls.get(destination) : undefined;
  if (other && Date.now() - other.since < POLL_LOST_MS) {
    other.again = true;
    return;
  }
  const { connections = new Connections() } = options;
  await connections.use(() => new Run(env, destination, { ...options, connections }).run());
}

type Leased = readonly [setup: Setup, task: SyncTask, read: { readonly secret: SecretRead; readonly end: number }];

/**
 * One Worker's work for one destination. Tasks ahead are leased and read, and wait for a place:
 *
 *   poll --leased--> ahead --a place is free--> running --completed--> results --next poll--> recorded
 */
class Run {
  readonly #env: Env;
  readonly #destination: string;
  readonly #options: Options & { readonly connections: Connections };
  readonly #object: Remote<SyncDestinationApi>;
  readonly #dependencies: TaskDependencies;
  readonly #gateLease: GateLease;
  readonly #ahead: Leased[] = [];
  /** The end of new leases, ms since 1970. */
  #end: number;
  #results: SyncResult[] = [];
  #running = 0;
  /** The destination's own limit of tasks at a time; unknown before the first poll with tasks. */
  #atOnce: number | null = null;
  #due = Promise.withResolvers<void>();

  constructor(env: Env, destination: string, options: Options & { readonly connections: Connections }) {
    this.#env = env;
    this.#destination = destination;
    this.#options = options;
    this.#end = Date.now() + options.budgetMs;
    this.#object = syncDestination(env, destination);
    this.#gateLease = options.gateLease ?? gateLeaseFor(env);
    const permit = this.#gateLease.holds;
    this.#dependencies = {
      ...{ object: this.#object, settings: settings(env), permit },
      ...{ apps: appAccess(env), identities: identityAccess(env) },
    };
  }

  async run(): Promise<void> {
    const { only } = this.#options;
    for (;;) {
      const sent = Date.now();
      const mine: PendingPoll = { since: sent, again: false };
      const answer = await this.#poll(sent, mine);
      this.#gateLease.extend(answer, sent);
      if (answer.setup) this.#take(answer.setup, answer.tasks, sent);
      const isIdle = this.#running === 0 && this.#results.length === 0;
      if (isIdle) {
        // Waits for a rate limit that ends within the budget; later work is left to the alarm.
        const wait = mine.again ? 0 : answer.retryInMs;
        if (only !== undefined || !answer.running || wait === null || Date.now() + wait >= this.#end) return;
        await scheduler.wait(Math.max(wait, 1));
      } else if (!(mine.again && this.#free() > 0)) await this.#nextTurn();
    }
  }

  /** Reports results, and leases tasks for the free places. */
  async #poll(sent: number, mine: PendingPoll): Promise<PollAnswer> {
    const { only } = this.#options;
    const free = sent < this.#end ? this.#free() : 0;
    const reported = this.#results;
    this.#results = [];
    if (free > 0 && only === undefined) polls.set(this.#destination, mine);
    try {
      return await poll(this.#object, reported, free, only);
    } catch (failure) {
      if (this.#running === 0 && this.#results.length === 0) throw failure;
      // No new task is leased; leased tasks are still reported, together with these results.
      this.#end = 0;
      this.#results.unshift(...reported);
      return EMPTY;
    } finally {
      if (polls.get(this.#destination) === mine) polls.delete(this.#destination);
    }
  }

  /** Places at work now. */
  #places(): number {
    if (this.#options.only !== undefined) return 1;
    return Math.min(this.#options.connections.share(), this.#atOnce ?? MOST_AT_ONCE);
  }

  /** How many more tasks may be leased. */
  #free(): number {
    if (this.#options.only !== undefined) return this.#atOnce === null ? 1 : 0;
    // Tasks ahead count against the destination's limit, too: it bounds the leases of all Workers together.
    const places = this.#places();
    const most = Math.min(places + Math.ceil(places / 2), this.#atOnce ?? places);
    return Math.max(0, most - this.#running - this.#ahead.length);
  }

  /** Accepts leased tasks. @param sent when the poll was sent: the leases are not older */
  #take(setup: Setup, tasks: readonly SyncTask[], sent: number): void {
    const read = readSecrets(this.#env, tasks);
    for (const task of tasks) this.#ahead.push([setup, task, { secret: read(task), end: sent + TASK_MS }]);
    this.#atOnce = setup.atOnce;
    this.#begin();
  }

  /** Begins tasks ahead while places are free. */
  #begin(): void {
    while (this.#running < this.#places()) {
      const next = this.#ahead.shift();
      if (!next) return;
      this.#running++;
      void this.#perform(...next);
    }
  }

  async #perform(...[setup, task, given]: Leased): Promise<void> {
    const result = await performTask(this.#dependencies, setup, task, given);
    auditTask(this.#destination, task, result);
    countTask(this.#destination, result);
    this.#results.push(result);
    this.#running--;
    this.#begin();
    if (this.#isTurn()) this.#due.resolve();
  }

  /** Whether to poll: nothing is ahead, or the results fill half of the places. */
  #isTurn(): boolean {
    const { length } = this.#results;
    return length > 0 && (this.#ahead.length === 0 || length >= Math.ceil(this.#places() / 2));
  }

  async #nextTurn(): Promise<void> {
    this.#due = Promise.withResolvers();
    if (!this.#isTurn()) await this.#due.promise;
    if (this.#running > 0) await scheduler.wait(COALESCE_MS);
  }
}

/**
 * Reads the secrets of leased tasks, one call for each mount. A read begins after the leases, so a later version is
 * another generation.
 */
function readSecrets(env: Env, tasks: readonly SyncTask[]): (task: SyncTask) => SecretRead {
  const byMount = Map.groupBy(
    tasks.filter(({ wish }) => wish === "present"),
    ({ mountUuid }) => mountUuid,
  );
  const reads = new Map<SyncTask, SecretRead>();
  for (const [mountUuid, some] of byMount) {
    const store = kvStore(env, mountUuid);
    const [first] = some;
    const all =
      some.length === 1 && first
        ? store.newest(first.secretName).then((one) => [one])
        : store.newestOf(some.map(({ secretName }) => secretName));
    for (const [at, task] of some.entries()) {
      const read = all.then((answers) => answers[at] ?? null);
      // Each task reports the failure itself, perhaps later.
      read.catch(() => undefined);
      reads.set(task, read);
    }
  }
  return (task) => reads.get(task) ?? Promise.resolve(null);
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
