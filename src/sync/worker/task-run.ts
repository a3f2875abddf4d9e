import { createHash, createHmac } from "node:crypto";
import type { ObjectResult, ObjectTask, Setup, SyncTask, Trouble } from "../../contracts/sync-tasks.ts";
import { failure } from "../../providers/outcome.ts";
import type { CallContext, ExternalObject, ObsoleteObject, Put } from "../destinations/destination-type.ts";
import type { DestinationType } from "../destinations/index.ts";
import { lacksSuccessor } from "../objects/object-plan.ts";
import { isPaused } from "../scheduler/retry-policy.ts";
import type { Content } from "./payload.ts";

/**
 * A task ends well before its lease, after which another Worker may act on the same secret. It also ends before the
 * runtime ends work after a response (30 s: Cloudflare Workers, `ctx.waitUntil`).
 */
export const TASK_MS = 20_000;
/** No object is begun with less time left. */
const MIN_MS = 2_000;

export type MakeContext = (deadlineMs: number) => CallContext;

/** The push or removal of an object, which waits for its outcome. */
export interface Write<Target> {
  readonly object: Target;
  settle(outcome: Put): void;
  /** Records the object without a call. */
  leave(): void;
}

type Succeeded = Extract<Put, { outcome: "ok" }>;
type Recorded = Omit<ObjectResult, "subKey" | "name">;

/**
 * The objects of one task, with their results. Each object begins with a push or removal, or is recorded without one; an
 * outcome settles it. Reads no rows; costs a call of the adapter for each object.
 */
export class TaskRun {
  readonly results: ObjectResult[] = [];
  unfinished = false;
  /** A failure that would affect every further object. */
  #stopped: Trouble | null = null;
  /** Keys of the desired objects that do not exist; "" is the whole secret. */
  readonly #missing = new Set<string>();

  constructor(
    private readonly type: DestinationType<unknown>,
    private readonly setup: Setup,
    private readonly task: SyncTask,
    /** `tags`: the digest of the tags of the setup. */
    private readonly run: { readonly make: MakeContext; readonly tags: string; readonly end: number },
  ) {}

  /** The settings of the destination. */
  get connection(): unknown {
    return this.setup.connection;
  }

  /** The context of one call, with the time that is left. */
  context(): CallContext {
    return this.run.make(this.#budget());
  }

  async put(copy: ObjectTask, content: Content): Promise<void> {
    const write = await this.beginPut(copy, content);
    if (write === null || this.type.kind === "stored") return;
    write.settle(await this.type.put(write.object, this.connection, this.context()));
  }

  /** The push of an object; null when it is recorded without one. */
  async beginPut(copy: ObjectTask, { value, data, isText }: Content): Promise<Write<ExternalObject> | null> {
    if (copy.blocked) return this.leave(copy);
    const fingerprint = this.#fingerprint(value);
    const same = copy.outside !== undefined && copy.outside !== null && copy.fingerprint === fingerprint;
    if (same && copy.owed) return this.#cleanUp(copy, fingerprint);
    if (same) return this.#record(copy, { state: "kept", fingerprint });
    const { maxValueBytes } = this.type;
    if (Buffer.byteLength(value) > maxValueBytes) {
      const message = `the value is larger than the ${maxValueBytes} bytes that the destination takes`;
      return this.leave(copy, failure("client", "value_too_large", message));
    }
    if (!this.mayBegin()) return this.leave(copy, this.#stopped ?? undefined);
    if (this.type.kind === "stored") return this.#record(copy, { state: "pushed", fingerprint, value });
    const { granularity, idempotencyToken } = this.task;
    const object: ExternalObject = {
      name: copy.name,
      reference: copy.reference,
      value,
      data,
      tags: { ...this.setup.tags },
      previousTagKeys: [...copy.previousTagKeys],
      tagsWritten: copy.tagsWritten === this.run.tags,
      knownToExist: copy.knownToExist,
      unsureSince: copy.unsureSince ?? undefined,
      idempotencyToken: digest([idempotencyToken, copy.name, value]),
      contentType: granularity === "secret-path" && !isText ? "application/json" : "text/plain",
      updatePolicy: this.setup.updatePolicy,
    };
    return this.#write(copy, object, (done) => ({
      state: done.left ? "left" : "pushed",
      fingerprint,
      ...settled(done),
    }));
  }

  /** Tries the owed clean-up of an object that is up to date. */
  async #cleanUp(copy: ObjectTask, fingerprint: string): Promise<null> {
    const type = this.type;
    if (type.kind === "stored" || !type.cleanUp) return this.#record(copy, { state: "kept", fingerprint });
    if (!this.mayBegin()) return this.leave(copy);
    const { name, reference } = copy;
    const done = await type.cleanUp({ name, reference }, this.connection, this.context());
    if (done.outcome !== "ok") return this.#fail(copy, done);
    return this.#record(copy, { state: "kept", fingerprint, ...settled(done) });
  }

  async remove(copy: ObjectTask, sourceGone: boolean): Promise<void> {
    const removal = await this.beginRemoval(copy, sourceGone);
    if (removal === null || this.type.kind === "stored") return;
    removal.settle(await this.type.remove(removal.object, this.connection, this.context()));
  }

  /**
   * The removal of an object; null when it is recorded without one. An object whose successor could not be pushed stays:
   * a secret with a new name is never missing.
   * @param sourceGone the secret is deleted, or its association is set to absent
   */
  async beginRemoval(copy: ObjectTask, sourceGone: boolean): Promise<Write<ObsoleteObject> | null> {
    if (copy.ours === "no") return this.#record(copy, { state: "absent", notOurs: true, uncalled: true });
    if (this.setup.retain) return this.#record(copy, { state: "retained" });
    if (sourceGone && copy.outside === null) return this.#record(copy, { state: "absent", uncalled: true });
    if (!sourceGone && lacksSuccessor(copy.subKey, this.#missing)) return this.leave(copy);
    if (!this.mayBegin()) return this.leave(copy);
    if (this.type.kind === "stored") return this.#record(copy, { state: "absent" });
    const known = { name: copy.name, reference: copy.reference };
    if (copy.ours === "maybe") {
      // A push of unknown outcome may have failed, and an object found now may belong to another writer.
      const seen = await this.type.inspect(known, this.connection, this.context());
      if (seen.outcome === "ok" && (seen.state === "absent" || seen.owned === false)) {
        return this.#record(copy, { state: "absent" });
      }
      // A login may lack only the right to read; a login that is refused removes nothing either.
      if (seen.outcome !== "ok" && (seen.outcome !== "client" || seen.code === "auth_failed")) {
        return this.#fail(copy, seen);
      }
    }
    const idempotencyToken = digest(["removal", this.task.idempotencyToken, copy.name]);
    const object = { ...known, ownedOnly: this.setup.updatePolicy !== "replace", idempotencyToken };
    return this.#write(copy, object, () => ({ state: "absent" }));
  }

  /** @param resultOf the result of the object after a call that succeeded */
  #write<Target>(copy: ObjectTask, object: Target, resultOf: (done: Succeeded) => Recorded): Write<Target> {
    return {
      object,
      settle: (done) => {
        if (done.outcome === "ok") return void this.#record(copy, resultOf(done));
        this.#fail(copy, done);
        this.#miss(copy);
      },
      leave: () => void this.leave(copy),
    };
  }

  /** An object that was pushed before exists, with its last content. */
  #miss({ obsolete, subKey, ours, knownToExist }: ObjectTask): void {
    if (!obsolete && !(ours === "certainly" && knownToExist)) this.#missing.add(subKey);
  }

  /** Whether an inspection of the object would come late in the task, when collected removals need the time. */
  isLateFor({ ours }: ObjectTask): boolean {
    return ours === "maybe" && this.#budget() < TASK_MS / 2;
  }

  /** Leaves an object to the next lease of the task. */
  postpone(copy: ObjectTask): void {
    this.unfinished = true;
    this.leave(copy);
  }

  #budget(): number {
    return this.run.end - Date.now();
  }

  /** Whether another call may begin: no failure affects it, and there is time. */
  mayBegin(): boolean {
    if (this.#stopped !== null) return false;
    const enough = this.#budget() >= MIN_MS;
    this.unfinished ||= !enough;
    return enough;
  }

  /** Records an object without a call. */
  leave(copy: ObjectTask, trouble?: Trouble): null {
    this.results.push({ ...untouched(copy), ...(trouble && { trouble }) });
    this.#miss(copy);
    return null;
  }

  #record({ subKey, name }: ObjectTask, result: Recorded): null {
    this.results.push({ subKey, name, ...result });
    return null;
  }

  #fail(copy: ObjectTask, trouble: Trouble): null {
    // A refusal concerns this object only; other failures affect the next objects, too.
    const general =
      trouble.outcome !== "client" || trouble.code === "auth_failed" || trouble.code === "permission_denied";
    if (general || isPaused(trouble)) this.#stopped = trouble;
    return this.#record(copy, {
      state: "failed",
      trouble,
      ...(trouble.code === "not_owned" && { notOurs: true }),
      ...unsureBefore(copy),
    });
  }

  /** A keyed fingerprint of content, tags and target, to detect an object that is up to date. */
  #fingerprint(value: string): string {
    const { connection, tags, fingerprintKey } = this.setup;
    const where = Object.entries(connection as Record<string, unknown>).filter(
      ([field]) => !this.type.sensitive.includes(field),
    );
    return createHmac("sha256", fingerprintKey)
      .update(JSON.stringify([value, Object.entries(tags).sort(), where.sort()]))
      .digest("hex");
  }
}

const settled = ({ reference, owed }: Succeeded) => ({
  ...(reference !== undefined && { reference }),
  ...(owed && { owed }),
});

export const untouched = ({ subKey, name, outside, ours, unsureSince, tagsWritten }: ObjectTask): ObjectResult => ({
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
