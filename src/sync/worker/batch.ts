import type { Setup, SyncResult } from "../../contracts/sync-tasks.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { failure } from "../../providers/outcome.ts";
import type { Batched, Batching, Put, RemoteDestinationType } from "../destinations/destination-type.ts";
import {
  failedTask,
  type LeasedTask,
  type PreparedTask,
  performTask,
  prepareTask,
  type TaskDependencies,
} from "./task.ts";
import type { TaskRun, Write } from "./task-run.ts";

/**
 * Performs leased tasks of one destination as one, where each call of the provider is a deployment. The intents were
 * recorded when the tasks were leased, so a batch that is lost on its way is repeated object by object or as another
 * batch. Costs one call for the pushes and one for the removals, more when the provider refuses a batch:
 *
 *   batch --refused--> two halves --refused--> single objects
 *     └── any other failure: the failure of every object
 */

const MAX_CONCURRENT_PREPARATIONS = 6;

/** Failures that are the same for every object of the place: smaller batches would fail alike. */
const OF_PLACE: ReadonlySet<string> = new Set([
  "auth_failed",
  "permission_denied",
  "not_found",
  "undeployed_version",
  "host_not_allowed",
  "network_blocked",
  "redirect_refused",
  "invalid_url",
  "insecure_url",
  "plan_required",
]);

/** A write of an object with its task. */
interface Item<Target> extends Write<Target> {
  readonly run: TaskRun;
}

/** Performs tasks of a type with `batch`; of other types, one after the other. Never throws. */
export async function performTasks(
  dependencies: TaskDependencies,
  setup: Setup,
  leased: readonly LeasedTask[],
): Promise<SyncResult[]> {
  const prepared = await mapLimit(leased, MAX_CONCURRENT_PREPARATIONS, (each) =>
    prepareTask(dependencies, setup, each),
  );
  const tasks = prepared.filter((one) => "run" in one);
  const type = tasks[0]?.type;
  if (type?.kind !== "remote" || !type.batch) {
    return mapLimit(leased, 1, (each) => performTask(dependencies, setup, each));
  }
  try {
    // Pushes precede removals: a renamed secret may exist twice for a moment, but is never missing.
    await putAll(type, type.batch, tasks);
    await removeAll(type, type.batch, tasks);
    return prepared.map((one) => ("run" in one ? one.result() : one));
  } catch (thrown) {
    return leased.map((each) => failedTask(setup, each, thrown));
  }
}

type Type = RemoteDestinationType<unknown>;

async function putAll(type: Type, batch: Batching<unknown>, tasks: readonly PreparedTask[]): Promise<void> {
  const items: Item<Parameters<Type["put"]>[0]>[] = [];
  for (const { run, puts } of tasks) {
    for (const [copy, content] of puts) {
      const write = await run.beginPut(copy, content);
      if (write !== null) items.push({ run, ...write });
    }
  }
  await inBatches(items, batch.most, {
    many: (objects, run) => batch.putMany(objects, run.connection, run.context()),
    one: (object, run) => type.put(object, run.connection, run.context()),
  });
}

async function removeAll(type: Type, batch: Batching<unknown>, tasks: readonly PreparedTask[]): Promise<void> {
  const items: Item<Parameters<Type["remove"]>[0]>[] = [];
  for (const { run, removals, sourceGone } of tasks) {
    for (const copy of removals) {
      // Inspections precede the call that removes: each lease is to remove something.
      if (items.length > 0 && run.isLateFor(copy)) {
        run.postpone(copy);
        continue;
      }
      const removal = await run.beginRemoval(copy, sourceGone);
      if (removal !== null) items.push({ run, ...removal });
    }
  }
  await inBatches(items, batch.most, {
    many: (objects, run) => batch.removeMany(objects, run.connection, run.context()),
    one: (object, run) => type.remove(object, run.connection, run.context()),
  });
}

interface Calls<Target> {
  many(objects: readonly Target[], run: TaskRun): Promise<Batched<Put>>;
  one(object: Target, run: TaskRun): Promise<Put>;
}

async function inBatches<Target extends { readonly name: string }>(
  items: readonly Item<Target>[],
  most: number,
  calls: Calls<Target>,
): Promise<void> {
  for (let at = 0; at < items.length; at += most) await attempt(items.slice(at, at + most), calls, "whole");
}

/** Sends a batch, and what remains of a refused one. Objects without time left are left for the next attempt. */
async function attempt<Target extends { readonly name: string }>(
  given: readonly Item<Target>[],
  calls: Calls<Target>,
  size: "whole" | "half",
): Promise<void> {
  const items = given.filter((item) => item.run.mayBegin() || void item.leave());
  const [first] = items;
  if (!first) return;
  const answer = await calls.many(
    items.map(({ object }) => object),
    first.run,
  );
  if (!("outcome" in answer)) {
    for (const { object, settle } of items) settle(answer.get(object.name) ?? NO_VERDICT);
    return;
  }
  if (answer.outcome !== "client" || OF_PLACE.has(answer.code) || items.length === 1) {
    for (const { settle } of items) settle(answer);
    return;
  }
  if (size === "whole") {
    const middle = Math.ceil(items.length / 2);
    await attempt(items.slice(0, middle), calls, "half");
    await attempt(items.slice(middle), calls, "half");
    return;
  }
  for (const item of items) {
    if (item.run.mayBegin()) item.settle(await calls.one(item.object, item.run));
    else item.leave();
  }
}

/** The outcome of an object that the answer of a batch does not name. */
const NO_VERDICT = failure("unknown", "unreadable_answer", "The answer of the batch does not name the object.");
