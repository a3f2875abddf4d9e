import { createHash, createHmac } from "node:crypto";
import type { NewestVersion } from "../../contracts/kv-store.ts";
import type { AppCredentials } from "../../contracts/sync-control.ts";
import type { SyncDestinationApi } from "../../contracts/sync-destination.ts";
import type { ObjectResult, ObjectTask, Setup, SyncResult, SyncTask, Trouble } from "../../contracts/sync-tasks.ts";
import type { Result } from "../../lib/result.ts";
import type { Remote } from "../../platform/durable/rpc.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { restricted } from "../../providers/network-policy.ts";
import { failure, type Permit, sender } from "../../providers/outcome.ts";
import { refusedKeys } from "../associations/external-name.ts";
import { typeOf } from "../configuration/definition.ts";
import type { CallContext, ProviderSettings, Put } from "../destinations/destination-type.ts";
import type { DestinationType } from "../destinations/index.ts";
import { tagsDigest } from "../objects/tags-digest.ts";
import { isPaused } from "../scheduler/retry-policy.ts";
import type { IdentityAccess } from "./identity.ts";
import { type Content, contentsOf } from "./payload.ts";

export type AppAccess = (namespace: string, name: string) => Promise<Result<AppCredentials>>;

/** The dependencies of a task, besides the task itself. */
export interface TaskDependencies {
  readonly object: Pick<Remote<SyncDestinationApi>, "plan">;
  readonly settings: ProviderSettings;
  readonly permit: Permit;
  readonly apps: AppAccess;
  readonly identities: IdentityAccess;
  readonly clusterId?: () => Promise<string>;
}

/**
 * A task ends well before its lease, after which another Worker may act on the same secret. It also ends before the
 * runtime ends work after a response (30 s: Cloudflare Workers, `ctx.waitUntil`).
 */
export const TASK_MS = 20_000;
/** No object is begun with less time left. */
const MIN_MS = 2_000;

/** The newest version of a task's secret, read after the task was leased; null when the task needs none. */
export type SecretRead = Promise<Result<NewestVersion | null> | null>;

/**
 * Performs one task: pushes and removes objects. Never throws: failures are outcomes.
 * @param end the time of the lease plus `TASK_MS`
 */
export async function performTask(
  dependencies: TaskDependencies,
  setup: Setup,
  task: SyncTask,
  { secret, end }: { readonly secret: SecretRead; readonly end: number },
): Promise<SyncResult> {
  const tags = tagsDigest(setup.tags);
  const base = { lease: task.lease, tagKeys: Object.keys(setup.tags), tagsDigest: tags, unfinished: false };
  const failed = (trouble: Trouble, copies: readonly ObjectTask[] = []): SyncResult => ({
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
    const source = newest?.value ?? null;
    const values = source === null ? [] : valuesOf(task, type, source.data);
    if ("outcome" in values) return failed(values, task.copies);
    const copies = await objectsFor(dependencies, task, source && values);
    // The lease is void: no call was made, and the result is ignored.
    if (copies === null) return { ...base, version: null, copies: [], unfinished: true };
    const context = await contextOf(dependencies, setup, type);
    if ("trouble" in context) return failed(context.trouble, copies);
    const run = new TaskRun(type, setup, task, { make: context.make, tags, end });
    // Pushes precede removals: a renamed secret may exist twice for a moment, but is never missing.
    const contents = new Map(values.map((content) => [content.key, content]));
    for (const copy of copies)
      if (isDesired(copy, source)) await run.put(copy, contents.get(copy.subKey) ?? NO_CONTENT);
    for (const copy of copies) if (!isDesired(copy, source)) await run.remove(copy, source === null);
    return { ...base, version: source?.version ?? null, copies: run.results, unfinished: run.unfinished };
  } catch (thrown) {
    warn("sync-task-failed", { destination: setup.type, association: task.lease.id, because: textOf(thrown) });
    return failed(internal("internal", "the service failed; it tries again"));
  }
}

/** The content of a blocked object, which is not pushed. */
const NO_CONTENT: Content = { key: "", value: "" };

const internal = (code: string, message: string): Trouble => ({ outcome: "internal", code, message });

/** A deleted secret and the desired state "absent" have the same effect at the destination. */
const isDesired = (copy: ObjectTask, source: object | null): boolean => source !== null && !copy.obsolete;

function valuesOf(
  { granularity }: SyncTask,
  type: DestinationType<unknown>,
  data: string,
): readonly Content[] | Trouble {
  const contents = contentsOf(granularity, data, type.takesData);
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

type MakeContext = (deadlineMs: number) => CallContext;

/** Makes the context of an adapter's calls; reads the custom application when the connection names one. */
export async function contextOf(
  dependencies: Pick<TaskDependencies, "settings" | "permit" | "apps" | "identities" | "clusterId">,
  setup: Pick<Setup, "namespace" | "connection" | "networking" | "federation">,
  type: DestinationType<unknown>,
): Promise<{ make: MakeContext } | { trouble: Trouble }> {
  const { permit } = dependencies;
  const name = type.appOf?.(setup.connection) ?? null;
  const app = name === null ? null : await dependencies.apps(setup.namespace, name);
  if (app && !app.ok) return { trouble: failure("client", "app_missing", app.message) };
  const identity = setup.federation && (await dependencies.identities(setup.federation));
  const { settings, clusterId } = dependencies;
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

/** Performs the objects of one task, one after the other, and collects their results. */
class TaskRun {
  readonly results: ObjectResult[] = [];
  unfinished = false;
  readonly #type: DestinationType<unknown>;
  readonly #setup: Setup;
  readonly #task: SyncTask;
  readonly #context: MakeContext;
  readonly #end: number;
  readonly #tags: string;
  /** A failure that would affect every further object. */
  #stopped: Trouble | null = null;

  constructor(
    type: DestinationType<unknown>,
    setup: Setup,
    task: SyncTask,
    run: { readonly make: MakeContext; readonly tags: string; readonly end: number },
  ) {
    this.#type = type;
    this.#setup = setup;
    this.#task = task;
    this.#context = run.make;
    this.#tags = run.tags;
    this.#end = run.end;
  }

  async put(copy: ObjectTask, { value, data }: Content): Promise<void> {
    if (copy.blocked) return this.#leave(copy);
    const fingerprint = this.#fingerprint(value);
    const same = copy.outside !== undefined && copy.outside !== null && copy.fingerprint === fingerprint;
    if (same) return copy.owed ? this.#cleanUp(copy, fingerprint) : this.#record(copy, { state: "kept", fingerprint });
    const { maxValueBytes } = this.#type;
    if (Buffer.byteLength(value) > maxValueBytes) {
      const message = `the value is larger than the ${maxValueBytes} bytes that the destination takes`;
      return this.#leave(copy, failure("client", "value_too_large", message));
    }
    if (!this.#mayBegin()) return this.#leave(copy, this.#stopped ?? undefined);
    if (this.#type.kind === "stored") return this.#record(copy, { state: "pushed", fingerprint, value });
    const { granularity, idempotencyToken } = this.#task;
    const done = await this.#type.put(
      {
        name: copy.name,
        reference: copy.reference,
        value,
        data,
        tags: { ...this.#setup.tags },
        previousTagKeys: [...copy.previousTagKeys],
        tagsWritten: copy.tagsWritten === this.#tags,
        knownToExist: copy.knownToExist,
        unsureSince: copy.unsureSince ?? undefined,
        idempotencyToken: digest([idempotencyToken, copy.name, value]),
        contentType: granularity === "secret-path" ? "application/json" : "text/plain",
        updatePolicy: this.#setup.updatePolicy,
      },
      this.#setup.connection,
      this.#context(this.#budget()),
    );
    if (done.outcome !== "ok") return this.#fail(copy, done);
    this.#record(copy, { state: done.left ? "left" : "pushed", fingerprint, ...settled(done) });
  }

  /** Tries the owed clean-up of an object that is up to date. */
  async #cleanUp(copy: ObjectTask, fingerprint: string): Promise<void> {
    const type = this.#type;
    if (type.kind === "stored" || !type.cleanUp) return this.#record(copy, { state: "kept", fingerprint });
    if (!this.#mayBegin()) return this.#leave(copy);
    const { name, reference } = copy;
    const done = await type.cleanUp({ name, reference }, this.#setup.connection, this.#context(this.#budget()));
    if (done.outcome !== "ok") return this.#fail(copy, done);
    this.#record(copy, { state: "kept", fingerprint, ...settled(done) });
  }

  /** @param sourceGone the secret is deleted, or its association is set to absent */
  async remove(copy: ObjectTask, sourceGone: boolean): Promise<void> {
    if (copy.ours === "no") return this.#record(copy, { state: "absent" });
    if (this.#setup.retain) return this.#record(copy, { state: "retained" });
    if (sourceGone && copy.outside === null) return this.#record(copy, { state: "absent" });
    if (!this.#mayBegin()) return this.#leave(copy);
    if (this.#type.kind === "stored") return this.#record(copy, { state: "absent" });
    const { connection, updatePolicy } = this.#setup;
    const known = { name: copy.name, reference: copy.reference };
    const context = this.#context(this.#budget());
    if (copy.ours === "maybe") {
      // A push of unknown outcome may have failed, and an object found now may belong to another writer.
      const seen = await this.#type.inspect(known, connection, context);
      if (seen.outcome === "ok" && (seen.state === "absent" || seen.owned === false)) {
        return this.#record(copy, { state: "absent" });
      }
      if (seen.outcome !== "ok" && seen.outcome !== "client") return this.#fail(copy, seen);
    }
    const done = await this.#type.remove({ ...known, ownedOnly: updatePolicy !== "replace" }, connection, context);
    if (done.outcome === "ok") this.#record(copy, { state: "absent" });
    else this.#fail(copy, done);
  }

  #budget(): number {
    return this.#end - Date.now();
  }

  #mayBegin(): boolean {
    if (this.#stopped !== null) return false;
    const enough = this.#budget() >= MIN_MS;
    this.unfinished ||= !enough;
    return enough;
  }

  /** Records an object without a call. */
  #leave(copy: ObjectTask, trouble?: Trouble): void {
    this.results.push({ ...untouched(copy), ...(trouble && { trouble }) });
  }

  #record({ subKey, name }: ObjectTask, result: Omit<ObjectResult, "subKey" | "name">): void {
    this.results.push({ subKey, name, ...result });
  }

  #fail(copy: ObjectTask, trouble: Trouble): void {
    // A refusal concerns this object only; other failures affect the next objects, too.
    const general =
      trouble.outcome !== "client" || trouble.code === "auth_failed" || trouble.code === "permission_denied";
    if (general || isPaused(trouble)) this.#stopped = trouble;
    this.#record(copy, {
      state: "failed",
      trouble,
      ...(trouble.code === "not_owned" && { notOurs: true }),
      ...unsureBefore(copy),
    });
  }

  /** A keyed fingerprint of content, tags and target, to detect an object that is up to date. */
  #fingerprint(value: string): string {
    const { connection, tags, fingerprintKey } = this.#setup;
    const where = Object.entries(connection as Record<string, unknown>).filter(
      ([field]) => !this.#type.sensitive.includes(field),
    );
    return createHmac("sha256", fingerprintKey)
      .update(JSON.stringify([value, Object.entries(tags).sort(), where.sort()]))
      .digest("hex");
  }
}

const settled = ({ reference, owed }: Extract<Put, { outcome: "ok" }>) => ({
  ...(reference !== undefined && { reference }),
  ...(owed && { owed }),
});

const untouched = ({ subKey, name, outside, ours, unsureSince, tagsWritten }: ObjectTask): ObjectResult => ({
  subKey,
  name,
  state: "untouched",
  ...(outside !== undefined && { certain: true }),
  ...(ours === "no" && { notOurs: true }),
  ...(tagsWritten && { tagsWritten }),
  ...unsureBefore({ unsureSince }),
});

/** Keeps the start of an earlier uncertain push in a result without a call. */
const unsureBefore = ({ unsureSince }: Pick<ObjectTask, "unsureSince">) =>
  unsureSince === null ? {} : { unsureSince };

const digest = (parts: readonly string[]): string => createHash("sha256").update(JSON.stringify(parts)).digest("hex");
