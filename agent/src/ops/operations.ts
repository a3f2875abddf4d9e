import {
  type AgentFrame,
  describe,
  type ErrorKind,
  frameBytes,
  isMethod,
  MAX_FRAME_BYTES,
  MAX_IN_FLIGHT,
  METHODS,
  type Method,
  NO_ACCEPTED,
  type ParamsOf,
  type Req,
  type Welcome,
} from "@sallyport/agent-protocol";
import { KeyedQueue } from "../keyed-queue.ts";
import { error, textOf, warn } from "../log.ts";
import { endingOf, isFinal, refusal, withoutSecrets } from "./ending.ts";
import type { Handlers, Outcome, Run, Secrets } from "./handler.ts";
import type { Accepted, Ending, Entry, Journal } from "./journal.ts";
import { sensitiveIn, withoutSensitive } from "./sensitive-params.ts";

interface OperationsOptions {
  readonly journal: Journal;
  readonly handlers: Handlers;
  /** Drops frames while there is no session: the service asks again in the next one. */
  readonly send: (frame: AgentFrame) => void;
  /**
   * Called when an operation has completed, before its result is sent, so that the service has the node's new state
   * first.
   */
  readonly onEnded?: () => Promise<void>;
}

/** An operation in memory: queued or running. */
interface Live {
  /** Resolves when it is in the journal, and acknowledged if the service needs that. */
  readonly accepted: Promise<void>;
  started: boolean;
  cancelled: boolean;
  /** The service does not need its result. */
  forgotten: boolean;
  /** The timeout result that was sent. The operation continues, and its final result follows. */
  late?: Ending;
}

/**
 * Executes the service's operations: at least once, according to the journal; in sequence per key; never below the
 * fence of a key. Outlives sessions.
 *
 *   req --> queued --> running --> result in journal --> res --done--> removed
 *              |          +-- deadline: res "unknown", continues
 *              +-- cancel: res "cancelled"
 */
export class Operations {
  readonly #journal: Journal;
  readonly #handlers: Handlers;
  readonly #send: (frame: AgentFrame) => void;
  readonly #onEnded: () => Promise<void>;
  readonly #live = new Map<string, Live>();
  readonly #queue = new KeyedQueue();
  readonly #running = new Set<Promise<void>>();
  #most = MAX_IN_FLIGHT;
  /** Whether accepted operations are reported before their result. */
  #reportsAccepted = true;
  /** Results since the start. */
  readonly results = { ok: 0, failed: 0, unknown: 0 };
  #stopping = false;

  constructor({ journal, handlers, send, onEnded = async () => {} }: OperationsOptions) {
    this.#journal = journal;
    this.#handlers = handlers;
    this.#send = send;
    this.#onEnded = onEnded;
  }

  get inFlight(): number {
    return this.#live.size;
  }

  /** Starts a session: interrupted operations run again, and requested results are sent. */
  welcome({ cfg, resume, forget, features }: Pick<Welcome, "cfg" | "resume" | "forget" | "features">): void {
    this.#most = cfg.maxInflight;
    this.#reportsAccepted = !features?.includes(NO_ACCEPTED);
    for (const op of forget) this.#forget(op);
    for (const entry of this.#journal.entries())
      if (!entry.ended && !this.#live.has(entry.op)) this.#finishInterrupted(entry);
    for (const op of resume) {
      const ending =
        this.#live.get(op)?.late ?? (this.#live.has(op) ? undefined : this.#journal.get(op)?.ended?.ending);
      if (ending) this.#tell(op, ending);
    }
  }

  receive(request: Req): void {
    const { op } = request;
    const live = this.#live.get(op);
    const entry = this.#journal.get(op);
    if (live) this.#attach(op, live);
    else if (entry) this.#again(entry, request);
    else this.#begin(request);
  }

  /** Rejects a malformed request. A known operation was well-formed before, so its outcome stays open. */
  reject(op: string, message: string): void {
    const isKnown = this.#live.has(op) || this.#journal.get(op) !== undefined;
    this.#reject(op, refusal("invalid", message, outcomeOf(isKnown)));
  }

  cancel(op: string): void {
    const live = this.#live.get(op);
    if (live) live.cancelled = true;
  }

  done(op: string): void {
    this.#forget(op);
  }

  /** Stops accepting operations. Resolves when none runs; service deadlines do not apply. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#running);
  }

  #attach(op: string, live: Live): void {
    const { late } = live;
    live.accepted.then(
      () => {
        this.#send({ t: "ack", op, state: "duplicate" });
        if (late) this.#tell(op, late);
      },
      () => {},
    );
  }

  #finishInterrupted(entry: Entry): void {
    if (this.#isOutdated(entry)) void this.#giveUp(entry.op);
    else if (!entry.secret) this.#start(entry, {}, Promise.resolve(), true);
  }

  /** Repeats a journaled operation that is not in memory: it has completed or was interrupted. */
  #again(entry: Entry, { op, params, secrets = {} }: Req): void {
    const { ended } = entry;
    this.#send({ t: "ack", op, state: "duplicate" });
    if (ended && isFinal(ended.ending)) this.#tell(op, ended.ending);
    else if (this.#isOutdated(entry)) void this.#giveUp(op);
    // The journal omits secret parameters.
    else this.#start({ ...entry, params: entry.secret ? params : entry.params }, secrets, Promise.resolve(), true);
  }

  #isOutdated({ key, gen }: Accepted): boolean {
    return gen < this.#journal.fence(key);
  }

  /** Abandons an outdated operation; the newer one handles its remains. */
  async #giveUp(op: string): Promise<void> {
    const ending = refusal("stale", "a newer operation was accepted before this one had ended");
    await this.#record(op, ending);
    this.#tell(op, ending);
  }

  #begin(request: Req): void {
    const { op, method, key, gen, deadlineMs, params, secrets } = request;
    // A generation is of one operation: it was accepted before, and the journal has dropped it since.
    const again = !reads(method) && gen === this.#journal.fence(key);
    const refused = this.#refusalOf(request, again);
    if (refused) {
      this.#reject(op, refused);
      return;
    }
    const written = withoutSensitive(params);
    const secret = secrets !== undefined || written !== params;
    const operation = { op, method, key, gen, deadlineMs, params, secret };
    const kept = reads(method) ? Promise.resolve() : this.#journal.accept({ ...operation, params: written });
    const accepted = kept.then(() => {
      if (this.#reportsAccepted) this.#send({ t: "ack", op, state: "accepted" });
    });
    accepted.catch((failure) => {
      error("journal_failed", { op, message: textOf(failure) });
      this.#reject(op, refusal("internal", "the node cannot write its journal", outcomeOf(again)));
    });
    this.#start(operation, secrets ?? {}, accepted, again);
  }

  /** @param again an earlier run began and its outcome is unknown */
  #refusalOf({ method, key, gen, params }: Req, again: boolean): Ending | undefined {
    const refuse = (kind: ErrorKind, message: string) => refusal(kind, message, outcomeOf(again));
    if (this.#stopping) return refuse("unavailable", "the agent is stopping");
    if (!isMethod(method)) return refuse("unsupported", `this agent has no method ${method}`);
    const checked = METHODS[method].params.safeParse(params);
    if (!checked.success) return refuse("invalid", `${method}: ${describe(checked.error)}`);
    const fence = reads(method) ? 0 : this.#journal.fence(key);
    if (gen < fence) return refuse("stale", `generation ${gen} is older than ${fence}, which was accepted before`);
    if (this.#live.size >= this.#most) return refuse("busy", `${this.#most} operations are in flight on this node`);
    return undefined;
  }

  #start(operation: Accepted, secrets: Secrets, accepted: Promise<void>, again: boolean): void {
    const live: Live = { accepted, started: false, cancelled: false, forgotten: false };
    this.#live.set(operation.op, live);
    const running = this.#queue.run(operation.key, async () => {
      try {
        await accepted;
      } catch {
        this.#live.delete(operation.op);
        return;
      }
      await this.#finish(operation, live, await this.#work(operation, { secrets, again }, live));
    });
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }

  /** Undefined when it is left for the next start. */
  async #work(operation: Accepted, run: Omit<Run, "limitMs">, live: Live): Promise<Ending | undefined> {
    if (live.cancelled) return refusal("cancelled", "it was cancelled before it began", outcomeOf(run.again));
    if (this.#stopping) return undefined;
    live.started = true;
    const { op, method, params, deadlineMs } = operation;
    const begun = performance.now();
    const elapsed = () => Math.round(performance.now() - begun);
    const sensitive = [...Object.values(run.secrets), ...sensitiveIn(params)];
    const limitMs = isMethod(method) ? Math.min(deadlineMs, METHODS[method].deadlineMs) : deadlineMs;
    const timer = setTimeout(() => {
      live.late = { ...refusal("timeout", `${method} has not ended within ${limitMs} ms`, "unknown"), ms: elapsed() };
      this.#tell(op, live.late);
    }, limitMs);
    try {
      const outcome = await this.#call(method, params, { ...run, limitMs });
      return endingOf(outcome, sensitive, elapsed());
    } catch (failure) {
      error("operation_threw", { op, method, message: withoutSecrets(textOf(failure), sensitive) });
      return { ...refusal("internal", `${method} failed on the node; its log says why`, "unknown"), ms: elapsed() };
    } finally {
      clearTimeout(timer);
    }
  }

  #call(method: string, params: Accepted["params"], run: Run): Promise<Outcome<object>> {
    if (!isMethod(method)) throw new Error("an agent that knew this method wrote the journal");
    return callWith(this.#handlers, method, params, run);
  }

  async #finish({ op, method }: Accepted, live: Live, ending: Ending | undefined): Promise<void> {
    // The service requested an operation that the operator does not allow.
    if (ending?.ok === false && ending.error.kind === "forbidden") warn("operation_forbidden", { op, method });
    if (ending && live.started)
      await this.#onEnded().catch((failure) => warn("report_failed", { message: textOf(failure) }));
    if (ending) this.results[ending.ok ? "ok" : ending.error.outcome]++;
    if (ending && !reads(method)) await this.#record(op, ending);
    this.#live.delete(op);
    if (live.forgotten && ending) this.#forget(op);
    else if (ending) this.#tell(op, ending);
  }

  async #record(op: string, ending: Ending): Promise<void> {
    try {
      await this.#journal.end(op, ending);
    } catch (failure) {
      error("journal_failed", { op, message: textOf(failure) });
    }
  }

  #forget(op: string): void {
    const live = this.#live.get(op);
    if (live) {
      live.cancelled = true;
      live.forgotten = true;
      return;
    }
    this.#journal.drop(op).catch((failure) => error("journal_failed", { op, message: textOf(failure) }));
  }

  #reject(op: string, ending: Ending): void {
    this.#send({ t: "ack", op, state: "rejected" });
    this.#tell(op, ending);
  }

  #tell(op: string, ending: Ending): void {
    const frame: AgentFrame = { t: "res", op, ...ending };
    const fits = frameBytes(JSON.stringify(frame)) <= MAX_FRAME_BYTES;
    this.#send(fits ? frame : { t: "res", op, ...refusal("plugin", "the result is too large to send", "unknown") });
  }
}

const reads = (method: string): boolean => isMethod(method) && METHODS[method].reads;

/** The outcome of an operation that this run refuses: an earlier run may have carried it out. */
const outcomeOf = (again: boolean) => (again ? "unknown" : "failed");

/** Type-safe dispatch of a method to its handler. */
function callWith<M extends Method>(handlers: Handlers, method: M, params: unknown, run: Run) {
  return handlers[method](METHODS[method].params.parse(params) as ParamsOf<M>, run);
}
