import type { SyncDestinationApi } from "../../contracts/sync-destination.ts";
import type { ObjectResult, PollAnswer, Setup, SyncResult, SyncTask, Trouble } from "../../contracts/sync-tasks.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import type { Remote } from "../../platform/durable/rpc.ts";
import { WakeUp } from "../../platform/durable/wake-up.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { flushCountsSoon } from "../../platform/observability/metrics/flush.ts";
import { count } from "../../platform/observability/metrics/isolate-counters.ts";
import { tracedWork } from "../../platform/observability/otlp/spans.ts";
import { settings } from "../../platform/settings.ts";
import { accessControl, kvStore, syncControl, syncDestination } from "../../rpc/stubs.ts";
import { isCall } from "../scheduler/retry-policy.ts";
import { performTasks } from "./batch.ts";
import { GateLease } from "./gate-lease.ts";
import { identityAccess } from "./identity.ts";
import { SecretReads } from "./secret-reads.ts";
import { type CallDependencies, type LeasedTask, performTask, type TaskDependencies } from "./task.ts";
import { TASK_MS } from "./task-run.ts";

/**
 * The Worker's side of secret sync: polls a destination for tasks, performs them in parallel and reports the results.
 * Runs in requests that changed the desired state, and in the consumer of the queue `sync-work`.
 */

/**
 * Tasks in parallel per invocation: the limit of simultaneous connections (Cloudflare Workers, "Limits"). A call beyond
 * it would wait inside the runtime, possibly past the end of its gate lease.
 */
const MAX_CONCURRENT = 6;
/** Delays before a poll with results is repeated. An object that restarts is available again soon. */
const REPEAT_AFTER_MS = [200, 1_000, 3_000];

/** The wait for further tasks that complete at the same time, before their results are reported together. */
const COALESCE_MS = 1;
/** The wait for the reads of other destinations, to which a secret that was written goes at the same time. */
const GATHER_MS = 1;

interface Options {
  /** How long new tasks are leased, in ms; leased tasks are finished. */
  readonly budgetMs: number;
  /** The id of one association; default all that are ready. */
  readonly only?: string;
  /** The connections shared by the destinations of one invocation. */
  readonly connections?: Connections;
  /** A gate lease shared by the destinations of one invocation. */
  readonly gateLease?: GateLease;
  /** The reads shared by the destinations of one invocation. */
  readonly reads?: SecretReads;
}

/** The connections of one invocation, in equal parts to the destinations that it works for at the moment. */
class Connections {
  #users = 0;

  share(): number {
    return Math.max(1, Math.floor(MAX_CONCURRENT / Math.max(1, this.#users)));
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
  const reads = new SecretReads(env, destinations.length > 1 ? GATHER_MS : 0);
  const shared = { connections: new Connections(), gateLease: gateLeaseFor(env), reads };
  const end = Date.now() + budgetMs;
  const perform = (destination: string) => performWork(env, destination, { budgetMs: end - Date.now(), ...shared });
  await mapLimit(destinations, MAX_CONCURRENT, perform, () => Date.now() < end);
}

/** The latest run of this isolate for each destination. Other callers join it instead of starting their own. */
const runs = new Map<string, Run>();

/**
 * Performs the work of one destination: polls for tasks, performs them and reports the results, until no task is ready
 * or the budget is spent. Several Workers may run for one destination; leases keep their tasks apart.
 */
export async function performWork(env: Env, destination: string, options: Options): Promise<void> {
  const { connections = new Connections(), only } = options;
  if (only === undefined && runs.get(destination)?.join(options.connections !== undefined)) return;
  const run = new Run(env, destination, { ...options, connections });
  if (only === undefined) runs.set(destination, run);
  try {
    await connections.use(() => run.run());
  } finally {
    if (runs.get(destination) === run) runs.delete(destination);
    if (run.isPollOwed) await new WakeUp(env.SYNC_WORK, destination).notify();
  }
}

/** Drops the runs of this isolate. For tests, which replace the deployment. */
export const forgetRuns = (): void => runs.clear();

type Leased = readonly [setup: Setup, leased: LeasedTask];

/** A run without progress for this long accepts no callers: its invocation may have ended. */
const SILENT_MS = 2_000;
/** With less of the budget left, a run accepts no callers. */
const MIN_BUDGET_MS = 200;
/** The wait for further callers that join a run with tasks in flight. */
const JOINED_MS = 3;
/** The wait for further callers that join a run without tasks, whose last poll was answered as paused. */
const PAUSED_MS = 100;
/** The longest interval at which a run with a free place looks for callers that have joined. */
const MAX_TICK_MS = 48;
/** The longest wait of a result for others, before they are reported together. */
const REPORT_MS = 50;
/** Tasks that take longer are not leased in reserve: a lease lasts for the call, and not for a wait before it. */
const QUICK_MS = 1_000;

/**
 * One Worker's work for one destination. Tasks ahead are leased and read, and wait for a place:
 *
 *   poll --leased--> ahead --a place is free--> running --completed--> results --next poll--> recorded
 *
 * A place holds one task, or a batch of them.
 */
class Run {
  #object: Remote<SyncDestinationApi>;
  readonly #dependencies: TaskDependencies;
  readonly #gateLease: GateLease;
  readonly #reads: SecretReads;
  readonly #id = crypto.randomUUID();
  readonly #ahead: Leased[] = [];
  /** The end of new leases, ms since 1970. */
  #end: number;
  #results: SyncResult[] = [];
  #running = 0;
  /** The destination's own limit of tasks at a time; unknown before the first poll with tasks. */
  #atOnce: number | null = null;
  /** Whether the destination's tasks are performed in batches. */
  #batches = false;
  /** When the oldest result is reported at the latest, ms since 1970. */
  #reportBy = 0;
  /** The duration of the latest task, ms. */
  #taskMs = QUICK_MS;
  /** The last progress, ms since 1970; 0 while no caller may join. */
  #progressAt = Date.now();
  /** Whether a caller has joined since the last poll was sent. */
  #joined = false;
  /**
   * Whether a caller has joined, and no later poll has asked for tasks. The answer to an earlier poll does not cover the
   * caller's work: syncing may have been paused then, or the work not queued.
   */
  #isPollOwed = false;
  #due = Promise.withResolvers<void>();

  constructor(
    private readonly env: Env,
    private readonly destination: string,
    private readonly options: Options & { readonly connections: Connections },
  ) {
    this.#end = Date.now() + options.budgetMs;
    this.#object = syncDestination(env, destination);
    this.#gateLease = options.gateLease ?? gateLeaseFor(env);
    this.#reads = options.reads ?? new SecretReads(env, 0);
    const calls = callDependencies(env, this.#gateLease);
    this.#dependencies = { object: this.#object, ...calls, isDeleted: isDeletedAt(env) };
  }

  async run(): Promise<void> {
    const { only } = this.options;
    for (;;) {
      const sent = Date.now();
      this.#joined = false;
      const answer = await this.#poll(sent);
      this.#gateLease.extend(answer, sent);
      if (answer.setup) this.#accept(answer.setup, answer.tasks, sent);
      if (this.#running > 0 || this.#results.length > 0) {
        await this.#untilPollIsDue();
        continue;
      }
      if (this.#isPollOwed && Date.now() < this.#end) {
        // Callers that join meanwhile share the poll. During a pause each write is one.
        await scheduler.wait(answer.running ? JOINED_MS : PAUSED_MS);
        continue;
      }
      // Waits for a rate limit that ends within the budget; later work is left to the alarm.
      const wait = answer.retryInMs;
      // No caller joins meanwhile, or from here on.
      this.#progressAt = 0;
      if (only !== undefined || !answer.running || wait === null || Date.now() + wait >= this.#end) return;
      await scheduler.wait(Math.max(wait, 1));
    }
  }

  /**
   * A concurrent caller makes this run poll again instead of starting a run of its own.
   * @param shared whether the caller has few connections; another caller joins a run with all places only
   * @returns false when the run is about to end, or a run of the caller's own would perform more tasks at a time
   */
  join(shared: boolean): boolean {
    const now = Date.now();
    if (now > this.#end - MIN_BUDGET_MS || now > this.#progressAt + SILENT_MS) return false;
    const hasAll = this.#places() >= (this.#atOnce ?? MAX_CONCURRENT);
    if (!hasAll && !(shared && this.#running < this.#places())) return false;
    // The run reads this itself: an invocation must not continue another one.
    this.#joined = true;
    this.#isPollOwed = true;
    return true;
  }

  /** Whether the run has ended without a poll for a caller that joined: another invocation is to poll. */
  get isPollOwed(): boolean {
    return this.#isPollOwed;
  }

  /** Reports results, and leases tasks for the free places. */
  async #poll(sent: number): Promise<PollAnswer> {
    const { only } = this.options;
    const free = sent < this.#end ? this.#free() : 0;
    const reported = this.#results;
    const wasOwed = this.#isPollOwed;
    if (free > 0) this.#isPollOwed = false;
    this.#results = [];
    this.#progressAt = sent;
    try {
      return await this.#send(reported, free, only);
    } catch (failure) {
      this.#isPollOwed ||= wasOwed;
      if (this.#running === 0 && this.#results.length === 0) throw failure;
      // No new task is leased; leased tasks are still reported, together with these results.
      this.#end = 0;
      this.#results.unshift(...reported);
      return EMPTY;
    } finally {
      this.#progressAt = Date.now();
    }
  }

  /**
   * Polls the object. A poll with results is repeated, since the object accepts a result for as long as its lease
   * holds; so is a poll that others have joined, since their work depends on it.
   */
  async #send(results: readonly SyncResult[], slots: number, only: string | undefined): Promise<PollAnswer> {
    for (let failures = 0; ; failures++) {
      try {
        const answer = await this.#object.poll(results, slots, only, this.#id);
        // A refusal means that the service is sealed: no task was leased, and the alarm sends another wake-up.
        return "ok" in answer ? EMPTY : answer;
      } catch (failure) {
        const wait = results.length > 0 || this.#joined ? REPEAT_AFTER_MS[failures] : undefined;
        if (wait === undefined) throw failure;
        warn("turn-repeated", { results: results.length, because: textOf(failure) });
        await scheduler.wait(wait);
        // A stub stays broken after a restart of its object.
        this.#object = syncDestination(this.env, this.destination);
      }
    }
  }

  /** Places at work now. */
  #places(): number {
    if (this.options.only !== undefined) return 1;
    return Math.min(this.options.connections.share(), this.#atOnce ?? MAX_CONCURRENT);
  }

  /** How many more tasks may be leased. */
  #free(): number {
    if (this.options.only !== undefined) return this.#atOnce === null ? 1 : 0;
    // The object leases more than the destination's limit only to a Worker that holds all leases.
    const most = this.#places() * (this.#taskMs < QUICK_MS && !this.#batches ? 2 : 1);
    // Tasks ahead of a batch take one place.
    const ahead = this.#batches ? Math.min(1, this.#ahead.length) : this.#ahead.length;
    return Math.max(0, most - this.#running - ahead);
  }

  /** Accepts leased tasks. @param sent when the poll was sent: the leases are not older */
  #accept(setup: Setup, tasks: readonly SyncTask[], sent: number): void {
    const end = sent + TASK_MS;
    for (const task of tasks) this.#ahead.push([setup, { task, secret: this.#reads.read(task), end }]);
    this.#atOnce = setup.atOnce;
    this.#batches = setup.batch !== undefined;
    this.#begin();
  }

  /** Begins tasks ahead while places are free. */
  #begin(): void {
    while (this.#running < this.#places()) {
      const [first] = this.#ahead;
      if (!first) return;
      const [setup] = first;
      // Tasks of one poll share their settings.
      const others = this.#ahead.findIndex(([other]) => other !== setup);
      const count = Math.min(setup.batch ?? 1, others === -1 ? this.#ahead.length : others);
      const next = this.#ahead.splice(0, count).map(([, leased]) => leased);
      this.#running++;
      void this.#perform(setup, next);
    }
  }

  /** @param tasks one task, or those of a batch */
  async #perform(setup: Setup, tasks: readonly LeasedTask[]): Promise<void> {
    const began = Date.now();
    const push = async () =>
      setup.batch === undefined
        ? Promise.all(tasks.map((leased) => performTask(this.#dependencies, setup, leased)))
        : performTasks(this.#dependencies, setup, tasks);
    const trace = tasks.find(({ task }) => task.trace)?.task.trace;
    const results = await tracedWork(this.env, trace, "secret-sync", push, (all) =>
      all.some((each) => failureOf(each) !== undefined),
    );
    this.#progressAt = Date.now();
    this.#taskMs = this.#progressAt - began;
    const isFirst = this.#results.length === 0;
    if (isFirst) this.#reportBy = this.#progressAt + REPORT_MS;
    for (const [at, result] of results.entries()) {
      const task = tasks[at]?.task;
      if (task) auditTask(this.destination, task, result);
      countTask(this.destination, result);
      this.#results.push(result);
    }
    this.#running--;
    this.#begin();
    if (this.#isPollDue()) this.#due.resolve();
    else if (isFirst) void scheduler.wait(REPORT_MS).then(() => this.#due.resolve());
  }

  /** Whether to poll: results are due, or a caller has joined and a place is free. */
  #isPollDue(): boolean {
    const { length } = this.#results;
    if (this.#joined && this.#free() > 0) return true;
    if (length === 0) return false;
    return this.#ahead.length === 0 || length >= this.#places() || Date.now() >= this.#reportBy;
  }

  async #untilPollIsDue(): Promise<void> {
    for (let tick = JOINED_MS; !this.#isPollDue(); tick = Math.min(2 * tick, MAX_TICK_MS)) {
      this.#due = Promise.withResolvers();
      const { promise } = this.#due;
      // Looks for callers that have joined, while a place is free for their tasks.
      await (this.#free() > 0 ? Promise.race([promise, scheduler.wait(tick)]) : promise);
    }
    if (this.#running > 0) await scheduler.wait(this.#joined ? JOINED_MS : COALESCE_MS);
  }
}

/** Records a task that called the provider in the audit log: numbers of objects, never their names. */
function auditTask(
  destination: string,
  { lease, desired, mountUuid, secretName }: SyncTask,
  { copies }: SyncResult,
): void {
  if (!copies.some(isCall)) return;
  const numberOf = (state: ObjectResult["state"]) =>
    copies.filter((copy) => isCall(copy) && copy.state === state).length;
  recordAction("secret-synced", {
    destination,
    association: lease.id,
    wish: desired,
    mount: mountUuid,
    secret: secretName,
    pushed: numberOf("pushed"),
    removed: numberOf("absent"),
    left: numberOf("left"),
    failed: numberOf("failed"),
  });
}

const failureOf = ({ trouble, copies }: SyncResult): Trouble | undefined =>
  trouble ?? copies.find((copy) => copy.trouble)?.trouble;

/** Counts a completed task and its objects, by outcome. */
function countTask(destination: string, result: SyncResult): void {
  const { copies, unfinished } = result;
  const failed = failureOf(result);
  const outcome = failed ? (failed.code === "paused" ? "paused" : failed.outcome) : unfinished ? "unfinished" : "ok";
  count("sallyport_sync_tasks_total", destination, outcome);
  for (const { state } of copies) count("sallyport_sync_objects_total", destination, state);
  flushCountsSoon();
}

/** A poll answer without tasks. */
const EMPTY: PollAnswer = { running: false, permitMs: 0, setup: null, tasks: [], retryInMs: null };

/** The gate lease for one invocation. */
export const gateLeaseFor = (env: Env): GateLease => new GateLease((forMs) => syncControl(env).mayRun(forMs));

/** The dependencies of calls to providers. Applications are never cached: calls after a change of a key use the new one. */
export const callDependencies = (env: Env, gateLease: GateLease): CallDependencies => ({
  settings: settings(env),
  permit: gateLease.holds,
  apps: (namespace, name) => syncControl(env).appCredentials(namespace, name),
  identities: identityAccess(env),
  clusterId: async () => (await accessControl(env).status()).clusterId,
});

/** Asks the mount of a secret without a version. */
const isDeletedAt =
  (env: Env): TaskDependencies["isDeleted"] =>
  async ({ mountUuid, secretName }) => {
    const { gone, candidates } = await kvStore(env, mountUuid).survey(secretName, "", 1);
    return !gone && candidates[0]?.path !== secretName;
  };
