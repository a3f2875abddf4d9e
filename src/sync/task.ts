import { createHash, createHmac } from "node:crypto";
import { kvStore } from "../contracts/stubs.ts";
import type { Result } from "../lib/result.ts";
import type { SyncDestination } from "../objects/sync-destination.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { failure, type Permit, sender } from "../providers/outcome.ts";
import type { AppCredentials } from "./apps.ts";
import {
  isPaused,
  type ObjectResult,
  type ObjectTask,
  type Setup,
  type SyncResult,
  type SyncTask,
  type Trouble,
} from "./association.ts";
import { typeOf } from "./definition.ts";
import type { CallContext, ProviderSettings } from "./destinations/destination-type.ts";
import type { DestinationType } from "./destinations/index.ts";
import { refusedKeys } from "./external-name.ts";
import { secretKeyValues, secretPathValue } from "./payload.ts";

export type AppAccess = (namespace: string, name: string) => Promise<Result<AppCredentials>>;

/** What performing takes besides the task. */
export interface Means {
  readonly env: Env;
  readonly object: Pick<Remote<SyncDestination>, "plan">;
  readonly settings: ProviderSettings;
  readonly permit: Permit;
  readonly apps: AppAccess;
}

/**
 * A task must be over well before its lease ends, because after that another Worker may act on the same secret, and before
 * the runtime ends what goes on behind an answer (30 s).
 */
const TASK_MS = 20_000;
/** Less than this is not worth beginning an object with. */
const LEAST_MS = 2_000;

interface Value {
  readonly key: string;
  readonly value: string;
}

/** Performs one task. Never throws: what is our own fault is an outcome, too. */
export async function performTask(means: Means, setup: Setup, task: SyncTask): Promise<SyncResult> {
  const end = Date.now() + TASK_MS;
  const base = { claim: task.claim, tagKeys: Object.keys(setup.tags), unfinished: false };
  const failed = (trouble: Trouble, copies: readonly ObjectTask[] = []): SyncResult => ({
    ...base,
    trouble,
    version: null,
    copies: copies.map(untouched),
  });
  try {
    const type = typeOf(setup.type);
    if (!type) return failed(internal("unknown_type", "this destination type is unknown"), task.copies);
    const newest = task.wish === "present" ? await kvStore(means.env, task.mountUuid).newest(task.secretName) : null;
    if (newest && !newest.ok) return failed(internal(newest.reason, newest.message), task.copies);
    const source = newest?.value ?? null;
    const values = source === null ? [] : valuesOf(task.granularity, source.data);
    if (!Array.isArray(values)) return failed(values, task.copies);
    const copies = await objectsFor(means, task, source && values);
    // The claim is void: nothing was done, and nobody waits for the result.
    if (copies === null) return { ...base, version: null, copies: [], unfinished: true };
    const context = await contextOf(means, setup, type);
    if ("trouble" in context) return failed(context.trouble, copies);
    const job = new Job(type, setup, task, context.make, end);
    // New names come first: for a moment a secret may be there twice, but never not at all.
    const contents = new Map(values.map(({ key, value }) => [key, value]));
    for (const copy of copies) if (isWanted(copy, source)) await job.put(copy, contents.get(copy.subKey) ?? "");
    for (const copy of copies) if (!isWanted(copy, source)) await job.remove(copy, source === null);
    return { ...base, version: source?.version ?? null, copies: job.results, unfinished: job.unfinished };
  } catch (thrown) {
    warn("sync-task-failed", { destination: setup.type, association: task.claim.id, because: textOf(thrown) });
    return failed(internal("internal", "the service failed; it tries again"));
  }
}

const internal = (code: string, message: string): Trouble => ({ outcome: "internal", code, message });

/** The source being gone and the wish being "absent" come to the same at the destination. */
const isWanted = (copy: ObjectTask, source: object | null): boolean => source !== null && !copy.obsolete;

function valuesOf(granularity: SyncTask["granularity"], data: string): Value[] | Trouble {
  if (granularity === "secret-path") {
    const whole = secretPathValue(data);
    return whole.ok ? [{ key: "", value: whole.value }] : failure("client", "payload", whole.message);
  }
  const parts = secretKeyValues(data);
  if (!parts.ok) return failure("client", "payload", parts.message);
  const refused = refusedKeys(parts.values.length);
  return refused === null ? parts.values : failure("client", "too_many_keys", refused);
}

/**
 * The objects of the task; recorded anew when the secret has other keys than those that are recorded, when one may not be
 * pushed, because its name may have become free, or when another destination may have a name.
 * @param values null: nothing is to be pushed
 */
async function objectsFor(
  means: Means,
  task: SyncTask,
  values: readonly Value[] | null,
): Promise<readonly ObjectTask[] | null> {
  if (!isToBePlanned(task.copies, values)) return task.copies;
  const planned = await means.object.plan(task.claim, values?.map(({ key }) => key) ?? null);
  if (planned === null) return null;
  // What was known when the claim went out is known still.
  const before = new Map(task.copies.map((copy) => [`${copy.subKey}\n${copy.name}`, copy]));
  return planned.map((copy) => {
    const was = before.get(`${copy.subKey}\n${copy.name}`);
    // What was known when the claim went out, of what another destination has: nothing.
    if (copy.ours === "no" && copy.unclaimed) return copy;
    return { ...copy, outside: was?.outside, ours: was?.ours ?? copy.ours, unsureSince: was?.unsureSince ?? null };
  });
}

function isToBePlanned(copies: readonly ObjectTask[], values: readonly Value[] | null): boolean {
  if (copies.some((copy) => copy.unclaimed && (copy.ours !== "no" || values !== null))) return true;
  if (values === null) return false;
  const live = copies.filter((copy) => !copy.obsolete);
  const keys = new Set(live.map((copy) => copy.subKey));
  const same = keys.size === values.length && values.every(({ key }) => keys.has(key));
  return !same || live.some((copy) => copy.blocked);
}

type MakeContext = (deadlineMs: number) => CallContext;

/** What an adapter's calls take; a custom application is fetched when the connection names one. */
export async function contextOf(
  means: Pick<Means, "settings" | "permit" | "apps">,
  setup: Pick<Setup, "namespace" | "connection">,
  type: DestinationType<unknown>,
): Promise<{ make: MakeContext } | { trouble: Trouble }> {
  const { permit } = means;
  const name = type.appOf?.(setup.connection) ?? null;
  const app = name === null ? null : await means.apps(setup.namespace, name);
  if (app && !app.ok) return { trouble: failure("client", "app_missing", app.message) };
  return {
    make: (deadlineMs) => ({
      settings: means.settings,
      send: sender({ deadlineMs, permit }),
      ...(app && { app: app.value }),
    }),
  };
}

/** Does the objects of one task, one after the other. */
class Job {
  readonly results: ObjectResult[] = [];
  unfinished = false;
  readonly #type: DestinationType<unknown>;
  readonly #setup: Setup;
  readonly #task: SyncTask;
  readonly #context: MakeContext;
  readonly #end: number;
  /** What every further object would meet, too. */
  #stopped: Trouble | null = null;

  constructor(type: DestinationType<unknown>, setup: Setup, task: SyncTask, context: MakeContext, end: number) {
    this.#type = type;
    this.#setup = setup;
    this.#task = task;
    this.#context = context;
    this.#end = end;
  }

  async put(copy: ObjectTask, value: string): Promise<void> {
    if (copy.blocked) return this.#leave(copy);
    const fingerprint = this.#fingerprint(value);
    const same = copy.outside !== undefined && copy.outside !== null && copy.fingerprint === fingerprint;
    if (same) return this.#note(copy, { state: "kept", fingerprint });
    const { maxValueBytes } = this.#type;
    if (Buffer.byteLength(value) > maxValueBytes) {
      const message = `the value is larger than the ${maxValueBytes} bytes that the destination takes`;
      return this.#leave(copy, failure("client", "value_too_large", message));
    }
    if (!this.#mayBegin()) return this.#leave(copy, this.#stopped ?? undefined);
    if (this.#type.kind === "stored") return this.#note(copy, { state: "pushed", fingerprint, value });
    const { granularity, idempotencyToken } = this.#task;
    const done = await this.#type.put(
      {
        name: copy.name,
        reference: copy.reference,
        value,
        tags: { ...this.#setup.tags },
        previousTagKeys: [...copy.previousTagKeys],
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
    const reference = done.reference === undefined ? {} : { reference: done.reference };
    this.#note(copy, { state: done.left ? "left" : "pushed", fingerprint, ...reference });
  }

  /** @param sourceGone the secret itself is gone, or is not wanted here any more */
  async remove(copy: ObjectTask, sourceGone: boolean): Promise<void> {
    if (copy.ours === "no") return this.#note(copy, { state: "absent" });
    if (this.#setup.retain) return this.#note(copy, { state: "retained" });
    if (sourceGone && copy.outside === null) return this.#note(copy, { state: "absent" });
    if (!this.#mayBegin()) return this.#leave(copy);
    if (this.#type.kind === "stored") return this.#note(copy, { state: "absent" });
    const { connection, updatePolicy } = this.#setup;
    const known = { name: copy.name, reference: copy.reference };
    const context = this.#context(this.#budget());
    if (copy.ours === "maybe") {
      // A push whose end is not known may have done nothing, and what is there is then somebody else's.
      const seen = await this.#type.inspect(known, connection, context);
      if (seen.outcome === "ok" && (seen.state === "absent" || seen.owned === false)) {
        return this.#note(copy, { state: "absent" });
      }
      if (seen.outcome !== "ok" && seen.outcome !== "client") return this.#fail(copy, seen);
    }
    const done = await this.#type.remove({ ...known, ownedOnly: updatePolicy !== "replace" }, connection, context);
    if (done.outcome === "ok") this.#note(copy, { state: "absent" });
    else this.#fail(copy, done);
  }

  #budget(): number {
    return this.#end - Date.now();
  }

  #mayBegin(): boolean {
    if (this.#stopped !== null) return false;
    const enough = this.#budget() >= LEAST_MS;
    this.unfinished ||= !enough;
    return enough;
  }

  /** An object that nothing was tried on is as it was. */
  #leave(copy: ObjectTask, trouble?: Trouble): void {
    this.results.push({ ...untouched(copy), ...(trouble && { trouble }) });
  }

  #note({ subKey, name }: ObjectTask, result: Omit<ObjectResult, "subKey" | "name">): void {
    this.results.push({ subKey, name, ...result });
  }

  #fail(copy: ObjectTask, trouble: Trouble): void {
    // A refusal of this one object says nothing of the next; everything else does.
    const general =
      trouble.outcome !== "client" || trouble.code === "auth_failed" || trouble.code === "permission_denied";
    if (general || isPaused(trouble)) this.#stopped = trouble;
    this.#note(copy, {
      ...{ state: "failed", trouble },
      ...(trouble.code === "not_owned" && { notOurs: true }),
      ...unsureBefore(copy),
    });
  }

  /** Tells whether an object is as it was pushed last: its content, its tags, and where it is pushed to. */
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

const untouched = ({ subKey, name, outside, ours, unsureSince }: ObjectTask): ObjectResult => ({
  subKey,
  name,
  state: "untouched",
  ...(outside !== undefined && { certain: true }),
  ...(ours === "no" && { notOurs: true }),
  ...unsureBefore({ unsureSince }),
});

/** What was uncertain before a task that has changed nothing. */
const unsureBefore = ({ unsureSince }: Pick<ObjectTask, "unsureSince">) =>
  unsureSince === null ? {} : { unsureSince };

const digest = (parts: readonly string[]): string => createHash("sha256").update(JSON.stringify(parts)).digest("hex");
