import type { NewestVersion } from "../../contracts/kv-store.ts";
import type { AppCredentials } from "../../contracts/sync-control.ts";
import type { SyncDestinationApi } from "../../contracts/sync-destination.ts";
import type { ObjectTask, Setup, SyncResult, SyncTask, Trouble } from "../../contracts/sync-tasks.ts";
import type { Result } from "../../lib/result.ts";
import type { Remote } from "../../platform/durable/rpc.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { restricted } from "../../providers/network-policy.ts";
import { failure, type Permit, sender } from "../../providers/outcome.ts";
import { refusedKeys } from "../associations/external-name.ts";
import { typeOf } from "../configuration/definition.ts";
import type { ProviderSettings } from "../destinations/destination-type.ts";
import type { DestinationType } from "../destinations/index.ts";
import { tagsDigest } from "../objects/tags-digest.ts";
import type { IdentityAccess } from "./identity.ts";
import { type Content, contentsOf } from "./payload.ts";
import { type MakeContext, TaskRun, untouched } from "./task-run.ts";

/** The dependencies of calls to a provider. */
export interface CallDependencies {
  readonly settings: ProviderSettings;
  readonly permit: Permit;
  readonly apps: (namespace: string, name: string) => Promise<Result<AppCredentials>>;
  readonly identities: IdentityAccess;
  readonly clusterId?: () => Promise<string>;
}

/** The dependencies of a task, besides the task itself. */
export interface TaskDependencies extends CallDependencies {
  readonly object: Pick<Remote<SyncDestinationApi>, "plan">;
  /** Whether the metadata of a secret of an enabled mount is deleted. */
  readonly isDeleted: (secret: Pick<SyncTask, "mountUuid" | "secretName">) => Promise<boolean>;
}

/** The newest version of a task's secret, read after the task was leased; null when the task needs none. */
export type SecretRead = Promise<Result<NewestVersion | null> | null>;

/** A leased task with the reading of its secret. `end`: the time of the lease plus `TASK_MS`. */
export interface LeasedTask {
  readonly task: SyncTask;
  readonly secret: SecretRead;
  readonly end: number;
}

/** A task before its calls. */
export interface PreparedTask {
  readonly run: TaskRun;
  readonly type: DestinationType<unknown>;
  readonly puts: readonly (readonly [copy: ObjectTask, content: Content])[];
  readonly removals: readonly ObjectTask[];
  readonly sourceGone: boolean;
  result(): SyncResult;
}

/** Performs one task: pushes and removes objects. Never throws: failures are outcomes. */
export async function performTask(
  dependencies: TaskDependencies,
  setup: Setup,
  leased: LeasedTask,
): Promise<SyncResult> {
  const prepared = await prepareTask(dependencies, setup, leased);
  if ("lease" in prepared) return prepared;
  const { run, puts, removals, sourceGone } = prepared;
  try {
    // Pushes precede removals: a renamed secret may exist twice for a moment, but is never missing.
    for (const [copy, content] of puts) await run.put(copy, content);
    for (const copy of removals) await run.remove(copy, sourceGone);
    return prepared.result();
  } catch (thrown) {
    return failedTask(setup, leased, thrown);
  }
}

/** Reads and plans a task. Never throws. @returns the result of a task without calls */
export async function prepareTask(
  dependencies: TaskDependencies,
  setup: Setup,
  leased: LeasedTask,
): Promise<PreparedTask | SyncResult> {
  const { task, secret, end } = leased;
  const base = baseOf(setup, task);
  const failed = (trouble: Trouble, copies: readonly ObjectTask[]): SyncResult => ({
    ...base,
    trouble,
    version: null,
    copies: copies.map(untouched),
  });
  try {
    const type = typeOf(setup.type);
    if (!type) return failed(internal("unknown_type", "this destination type is unknown"), task.copies);
    const newest = await secret;
    if (newest && !newest.ok) return failed(internal(newest.reason, newest.message), task.copies);
    const found = newest?.value ?? null;
    if (found === null && task.staysWithoutSecret && (await dependencies.isDeleted(task))) {
      const version = task.copies.find(({ outside }) => outside)?.outside ?? null;
      return { ...base, version, copies: task.copies.map(untouched) };
    }
    const values = found === null ? [] : valuesOf(task, type, found.data);
    if ("outcome" in values) return failed(values, task.copies);
    // A secret without a key that its rule pushes has no object, like a deleted one. An empty secret by key is synced.
    const mayBeEmpty = task.granularity === "secret-key" && !task.content;
    const source = values.length === 0 && !mayBeEmpty ? null : found;
    const copies = await objectsFor(dependencies, task, source && values);
    // The lease is void: no call was made, and the result is ignored.
    if (copies === null) return { ...base, version: null, copies: [], unfinished: true };
    const context = await contextOf(dependencies, setup, type);
    if ("trouble" in context) return failed(context.trouble, copies);
    const run = new TaskRun(type, setup, task, { make: context.make, tags: base.tagsDigest, end });
    const contents = new Map(values.map((content) => [content.key, content]));
    const desired = copies.filter((copy) => isDesired(copy, source));
    return {
      run,
      type,
      puts: desired.map((copy) => [copy, contents.get(copy.subKey) ?? NO_CONTENT] as const),
      removals: copies.filter((copy) => !isDesired(copy, source)),
      sourceGone: source === null,
      result: () => ({
        ...base,
        version: source?.version ?? null,
        copies: run.results,
        unfinished: run.unfinished,
      }),
    };
  } catch (thrown) {
    return failedTask(setup, leased, thrown);
  }
}

const baseOf = (setup: Setup, task: SyncTask) => ({
  lease: task.lease,
  tagKeys: Object.keys(setup.tags),
  tagsDigest: tagsDigest(setup.tags),
  unfinished: false,
});

/** The result of a task that ended by a fault of this service. */
export function failedTask(setup: Setup, { task }: LeasedTask, thrown: unknown): SyncResult {
  warn("sync-task-failed", { destination: setup.type, association: task.lease.id, because: textOf(thrown) });
  const trouble = internal("internal", "the service failed; it tries again");
  return { ...baseOf(setup, task), trouble, version: null, copies: [] };
}

/** The content of a blocked object, which is not pushed. */
const NO_CONTENT: Content = { key: "", value: "" };

const internal = (code: string, message: string): Trouble => ({ outcome: "internal", code, message });

/** A deleted secret and the desired state "absent" have the same effect at the destination. */
const isDesired = (copy: ObjectTask, source: object | null): boolean => source !== null && !copy.obsolete;

function valuesOf(
  { granularity, content }: SyncTask,
  type: DestinationType<unknown>,
  data: string,
): readonly Content[] | Trouble {
  const contents = contentsOf(granularity, data, type.takesData, content);
  if (!contents.ok) return failure("client", "payload", contents.message);
  const refused = granularity === "secret-key" ? refusedKeys(contents.values.length) : null;
  return refused === null ? contents.values : failure("client", "too_many_keys", refused);
}

/**
 * The objects of the task. They are planned again when the secret's keys differ from the recorded objects, a blocked
 * name may have become free, or another destination may own a name.
 * @param values null: nothing is pushed
 */
async function objectsFor(
  dependencies: TaskDependencies,
  task: SyncTask,
  values: readonly Content[] | null,
): Promise<readonly ObjectTask[] | null> {
  if (!isToBePlanned(task.copies, values)) return task.copies;
  const planned = await dependencies.object.plan(task.lease, values?.map(({ key }) => key) ?? null);
  if (planned === null) return null;
  // The state recorded at the lease is still valid.
  const before = new Map(task.copies.map((copy) => [`${copy.subKey}\n${copy.name}`, copy]));
  return planned.map((copy) => {
    const was = before.get(`${copy.subKey}\n${copy.name}`);
    // The state of an object that another destination owns is not ours to use.
    if (copy.ours === "no" && copy.unclaimed) return copy;
    return {
      ...copy,
      outside: was?.outside,
      tagsWritten: was?.tagsWritten ?? null,
      ours: was?.ours ?? copy.ours,
      unsureSince: was?.unsureSince ?? null,
    };
  });
}

function isToBePlanned(copies: readonly ObjectTask[], values: readonly Content[] | null): boolean {
  if (copies.some((copy) => copy.unclaimed && (copy.ours !== "no" || values !== null))) return true;
  if (values === null) return false;
  const live = copies.filter((copy) => !copy.obsolete);
  const keys = new Set(live.map((copy) => copy.subKey));
  const same = keys.size === values.length && values.every(({ key }) => keys.has(key));
  return !same || live.some((copy) => copy.blocked);
}

/** Makes the context of an adapter's calls; reads the custom application when the connection names one. */
export async function contextOf(
  { settings, permit, apps, identities, clusterId }: CallDependencies,
  setup: Pick<Setup, "namespace" | "connection" | "networking" | "federation">,
  type: DestinationType<unknown>,
): Promise<{ make: MakeContext } | { trouble: Trouble }> {
  const name = type.appOf?.(setup.connection) ?? null;
  const app = name === null ? null : await apps(setup.namespace, name);
  if (app && !app.ok) return { trouble: failure("client", "app_missing", app.message) };
  const identity = setup.federation && (await identities(setup.federation));
  return {
    make: (deadlineMs) => ({
      settings,
      send: restricted(sender({ deadlineMs, permit }), setup.networking ?? {}, settings.DNS_URL),
      ...(app && { app: app.value }),
      ...(identity && { identity }),
      ...(clusterId && { clusterId }),
    }),
  };
}
