import { constants } from "node:os";
import { z } from "zod";
import { backoffMs, sleep } from "../../../relay/src/wait.ts";
import { type Api, ApiError } from "../api.ts";
import { command, flag, InvalidUsage, type Io, text, textOf, texts, timerMsOf } from "../command.ts";
import { connect } from "../connect.ts";
import { ENVIRONMENT } from "../environment.ts";
import { Child } from "./child.ts";
import { SecretFiles } from "./files.ts";
import { Sources, wantedIn } from "./source.ts";
import { watch } from "./watch.ts";

export const run = command({
  words: ["run"],
  summary: "run a program with secrets as its environment or as files",
  about: `Runs a program with the values of secrets as environment variables, or as files of mode 0600 with --files.
Credentials of engines, such as aws/creds/deploy, are issued, renewed, and ended with the program. When a
value changes, the program is restarted or gets a signal: at once where the token may subscribe to
sys/events/subscribe/kv*, else within --poll.`,
  args: [{ name: "COMMAND...", help: "the program with its arguments, after --" }],
  options: {
    path: texts("PATH", "PATH for all keys, PATH#KEY for one, NAME=PATH#KEY to name it; may be repeated"),
    upper: flag("make names of keys upper case, with _ for other characters"),
    files: text("DIR", "a file for each value here instead of the environment; removed at the end"),
    "on-change": text("ACTION", "restart, none, or a signal such as SIGHUP (default restart)"),
    poll: text("TIME", "how often to look without event notifications (default 30s)"),
    grace: text("TIME", "how long a restart waits between SIGTERM and SIGKILL (default 10s)"),
    namespace: text("NAME", "the namespace (default: that of the environment or the login)"),
  },
  notes: `${ENVIRONMENT}
Exit codes: that of the program, 128 and the signal's number, 126 or 127 when it cannot be started; else 1
for a secret that cannot be read, 2 for invalid usage.`,
  isWrapper: true,
  run: async ({ values, args }, io) => {
    if (values.path.length === 0)
      throw new InvalidUsage("--path is missing: sallyport run --path secret/app/db -- COMMAND");
    const wanted = values.path.map(wantedIn);
    const action = actionIn(values["on-change"] ?? "restart");
    if (action !== "restart" && action !== "none" && values.files === undefined)
      throw new InvalidUsage("--on-change: a signal needs --files: the environment of a running program cannot change");
    const pollMs = timerMsOf("poll", values.poll ?? "30s");
    const graceMs = timerMsOf("grace", values.grace ?? "10s");
    const api = connect({ namespace: values.namespace }, io);
    const sources = new Sources(api, { isUpper: values.upper, isForFiles: values.files !== undefined });
    const child = new Child(args, graceMs);
    let files: SecretFiles | null = null;
    try {
      const reading = sources.open(wanted).then(() => sources.read());
      const first = await Promise.race([reading, child.ended]);
      if (typeof first === "number") {
        reading.catch(() => undefined);
        await sources.close();
        // A read without an answer would hold the end for its time.
        process.exit(first);
      }
      files = values.files === undefined ? null : new SecretFiles(values.files);
      return await new Supervisor(child, sources, files, action, io).run(api, first, pollMs);
    } finally {
      files?.close();
      await sources.close();
    }
  },
});

type Action = "restart" | "none" | NodeJS.Signals;

/** @throws InvalidUsage */
function actionIn(value: string): Action {
  if (value === "restart" || value === "none") return value;
  const signal = (value.startsWith("SIG") ? value : `SIG${value}`).toUpperCase();
  if (!(signal in constants.signals))
    throw new InvalidUsage("--on-change: must be restart, none, or a signal such as SIGHUP");
  return signal as NodeJS.Signals;
}

/** Several hints of one change cause one read. */
const SETTLE_MS = 200;

/** Keeps the program's values equal to the secrets. */
class Supervisor {
  readonly #child: Child;
  readonly #sources: Sources;
  readonly #files: SecretFiles | null;
  readonly #action: Action;
  readonly #io: Io;
  readonly #stopping = new AbortController();
  #current: ReadonlyMap<string, string> = new Map();
  #wake: () => void = () => undefined;
  #isHinted = false;
  #fault = "";
  #failures = 0;
  #isRetrying = false;

  constructor(child: Child, sources: Sources, files: SecretFiles | null, action: Action, io: Io) {
    this.#child = child;
    this.#sources = sources;
    this.#files = files;
    this.#action = action;
    this.#io = io;
  }

  /** @returns the program's exit code */
  async run(api: Api, first: ReadonlyMap<string, string>, pollMs: number): Promise<number> {
    const { signal } = this.#stopping;
    const note = (line: string) => this.#io.note(`sallyport run: ${line}`);
    this.#current = first;
    this.#files?.write(first);
    this.#child.start(this.#environment(), note);
    const tasks = [
      watch(api, { places: this.#sources.places, pollMs, signal, note, hint: () => this.#hint() }),
      this.#leases(),
      renewToken(api, signal),
      this.#changes(note),
    ];
    const failed = Promise.all(tasks).then(() => this.#child.ended);
    const code = await Promise.race([this.#child.ended, failed]);
    this.#stopping.abort();
    this.#wake();
    await Promise.allSettled(tasks);
    return code;
  }

  #hint(): void {
    this.#isHinted = true;
    this.#wake();
  }

  /** Hints when a lease must be renewed. */
  async #leases(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const ms = this.#sources.renewAt - Date.now();
      await sleep(Math.min(Math.max(ms, 1000), 60_000), signal);
      if (!signal.aborted && this.#sources.renewAt <= Date.now()) this.#hint();
    }
  }

  async #changes(note: (line: string) => void): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      if (!this.#isHinted)
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      if (signal.aborted) return;
      await sleep(SETTLE_MS, signal);
      this.#isHinted = false;
      try {
        await this.#apply(await this.#sources.read(), note);
        this.#fault = "";
        this.#failures = 0;
      } catch (failure) {
        // The program goes on with its values. One line for each cause.
        const fault = textOf(failure);
        if (fault !== this.#fault) note(`${fault}: the program keeps its values`);
        this.#fault = fault;
        this.#retry();
      }
    }
  }

  /** Hints after a pause that grows: the change that could not be read or written is not announced again. */
  #retry(): void {
    const pause = backoffMs(this.#failures++);
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    void sleep(pause, this.#stopping.signal).then(() => {
      this.#isRetrying = false;
      this.#hint();
    });
  }

  async #apply(next: ReadonlyMap<string, string>, note: (line: string) => void): Promise<void> {
    if (this.#stopping.signal.aborted || isEqual(next, this.#current)) return;
    this.#files?.write(next);
    this.#current = next;
    if (this.#action === "none") return;
    note(`a secret changed: ${this.#action === "restart" ? "restarting the program" : this.#action}`);
    if (this.#action === "restart") await this.#child.restart(this.#environment(), note);
    else this.#child.signal(this.#action);
  }

  #environment(): NodeJS.ProcessEnv {
    return this.#files === null ? { ...this.#io.env, ...Object.fromEntries(this.#current) } : { ...this.#io.env };
  }
}

const isEqual = (a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean =>
  a.size === b.size && [...a].every(([name, value]) => b.get(name) === value);

const tokenSchema = z.object({ renewable: z.boolean(), ttl: z.number() });
const LONGEST_MS = 3_600_000;

/** Renews the token at half of its time, while it can be. */
async function renewToken(api: Api, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    const fields = await api.fields("auth/token/lookup-self").catch((failure: unknown) => {
      const isRefused = failure instanceof ApiError && failure.status > 0 && failure.status < 500;
      return isRefused && failure.status !== 429 ? null : undefined;
    });
    if (fields === undefined) {
      await sleep(backoffMs(failures++), signal);
      continue;
    }
    failures = 0;
    const found = tokenSchema.safeParse(fields);
    if (!found.success || !found.data.renewable || found.data.ttl <= 0) return;
    await sleep(Math.min((found.data.ttl * 1000) / 2, LONGEST_MS), signal);
    if (!signal.aborted) await api.call("POST", "auth/token/renew-self", { body: "{}" }).catch(() => undefined);
  }
}
