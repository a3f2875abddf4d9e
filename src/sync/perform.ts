import { settings } from "../env.ts";
import { textOf, warn } from "../log.ts";
import { kvStore, syncDestination } from "../objects/stubs.ts";
import { LEASE_MS } from "../work/work-list.ts";
import type { SyncResult, SyncTask } from "./association.ts";
import { typeOf } from "./definition.ts";
import type { CallContext } from "./destinations/destination-type.ts";
import type { DestinationType } from "./destinations/index.ts";
import { contentHash, secretPathValue } from "./payload.ts";

const TASKS_PER_CLAIM = 25;
const TASKS_AT_ONCE = 6;
/** A provider call must be over well before its lease: after that another Worker may act on the same secret. */
const CALL_MS = 20_000;
/** What is left of a lease when the last call must be over: enough for the result to travel. */
const LEASE_MARGIN_MS = 5_000;
const SETTLE_AGAIN_MS = 200;

/**
 * Does what a destination wants done: claims, pushes or removes, settles, until nothing is ready or `budgetMs` has passed.
 * Runs in a Worker; several may run for one destination, the leases keep them apart.
 * @param only one association; default all that are ready
 */
export async function performWork(
  env: Env,
  destination: string,
  options: { budgetMs: number; only?: string },
): Promise<void> {
  const end = Date.now() + options.budgetMs;
  do {
    const claimed = Date.now();
    const tasks = await syncDestination(env, destination).claim(TASKS_PER_CLAIM, options.only);
    // A refusal means that the service is sealed: nothing was leased, the alarm asks again.
    if (!Array.isArray(tasks) || tasks.length === 0) return;
    const remaining = tasks.values();
    const worker = async () => {
      for (const task of remaining) {
        // Settled one by one, so that a slow neighbour does not outlast this task's lease.
        const left = claimed + LEASE_MS - Date.now() - LEASE_MARGIN_MS;
        if (left < 1_000) return;
        await settle(env, destination, await performTask(env, task, Math.min(CALL_MS, left)));
      }
    };
    await Promise.all(Array.from({ length: TASKS_AT_ONCE }, worker));
  } while (Date.now() < end && options.only === undefined);
}

/** The object takes a result again as long as the lease holds, so one that was lost to its restart is sent once more. */
async function settle(env: Env, destination: string, result: SyncResult): Promise<void> {
  try {
    await syncDestination(env, destination).settle([result]);
  } catch (failure) {
    warn("settle-repeated", { destination, association: result.claim.id, because: textOf(failure) });
    await scheduler.wait(SETTLE_AGAIN_MS);
    await syncDestination(env, destination).settle([result]);
  }
}

/** Performs one task. Never throws: what is our own fault is an outcome, too. */
async function performTask(env: Env, task: SyncTask, deadlineMs: number): Promise<SyncResult> {
  const end = Date.now() + deadlineMs;
  // One deadline for all calls of a task together.
  const context = () => ({ settings: settings(env), deadlineMs: end - Date.now() });
  const base = { claim: task.claim, externalName: task.externalName, tagKeys: Object.keys(task.tags) };
  const failed = (outcome: SyncResult["outcome"]): SyncResult => ({
    ...base,
    outcome,
    version: null,
    removedNames: [],
  });
  try {
    const type = typeOf(task.type);
    if (!type)
      return failed({ outcome: "internal", code: "unknown_type", message: "this destination type is unknown" });
    const newest = task.wish === "present" ? await kvStore(env, task.mountUuid).newest(task.secretName) : null;
    if (newest && !newest.ok) return failed({ outcome: "internal", code: newest.reason, message: newest.message });
    const source = newest?.value ?? null;
    const version = source?.version ?? null;
    const done = { ...base, outcome: { outcome: "ok" }, version } as const;
    if (task.outside === version && task.staleNames.length === 0) return { ...done, removedNames: [] };
    // The source being gone and the wish being "absent" come to the same at the destination.
    const removedNames = source ? task.staleNames : [...task.staleNames, task.externalName];
    const put = source ? await putOne(type, task, source.data, context()) : null;
    if (put && put.outcome.outcome !== "ok") return failed(put.outcome);
    const cleared = await removeAll(type, task, removedNames, context);
    if (cleared.outcome !== "ok") return failed(cleared);
    return put?.kept === undefined ? { ...done, removedNames } : { ...done, removedNames, value: put.kept };
  } catch (failure) {
    warn("sync-task-failed", { destination: task.type, association: task.claim.id, because: textOf(failure) });
    return failed({ outcome: "internal", code: "internal", message: "the service failed; it tries again" });
  }
}

async function putOne(
  type: DestinationType<unknown>,
  task: SyncTask,
  data: string,
  context: CallContext,
): Promise<{ outcome: SyncResult["outcome"]; kept?: string }> {
  const payload = secretPathValue(data);
  if (!payload.ok) return { outcome: { outcome: "client", code: "payload", message: payload.message } };
  if (Buffer.byteLength(payload.value) > type.maxValueBytes) {
    const message = `the value is larger than the ${type.maxValueBytes} bytes that the destination takes`;
    return { outcome: { outcome: "client", code: "value_too_large", message } };
  }
  if (type.kind === "stored") return { outcome: { outcome: "ok" }, kept: payload.value };
  const outcome = await type.put(
    {
      name: task.externalName,
      value: payload.value,
      tags: { ...task.tags },
      previousTagKeys: [...task.previousTagKeys],
      knownToExist: task.knownToExist,
      idempotencyToken: contentHash(`${task.idempotencyToken} ${payload.value}`),
    },
    task.connection,
    context,
  );
  return { outcome };
}

async function removeAll(
  type: DestinationType<unknown>,
  task: SyncTask,
  names: readonly string[],
  context: () => CallContext,
): Promise<SyncResult["outcome"]> {
  if (type.kind === "stored") return { outcome: "ok" };
  for (const name of names) {
    const outcome = await type.remove({ name }, task.connection, context());
    if (outcome.outcome !== "ok") return outcome;
  }
  return { outcome: "ok" };
}
