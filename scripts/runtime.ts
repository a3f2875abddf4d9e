/** The Worker's runtime in `npm start` and `npm run serve`: build, start, health check and stop. */
import { type ChildProcess, fork } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { LocalFile } from "./files.ts";
import { pinged, type Response, type Rhythm, silence } from "./heartbeat.ts";
import { isAlive, startTime } from "./processes.ts";
import { Refusal } from "./settings.ts";

export interface ToBuild {
  dir: string;
  dataDir: string;
  /** The wrangler configuration; default `wrangler.toml`. */
  config?: string;
  /** Content for the bucket FILES; absent when it is up to date. */
  files?: LocalFile[];
  /** Migrate the database; absent when it has the current tables. */
  migrations?: boolean;
}

export type FromBuild = { built: true } | { failure: string };

export interface ToRuntime {
  bindings: Record<string, string>;
  dataDir: string;
  /** Output directory of `buildWorker`. */
  builtDir: string;
  log: boolean;
  /** Print everything as JSON lines, the audit log too. */
  json?: boolean;
  /** Certificates of authorities that are trusted in calls of tenants' hosts, beside public ones. */
  trustedCas?: readonly string[];
}

export type FromRuntime = { url: string } | { failure: string };

const STOP_MS = 5000;
/** Time for a killed group to end: its files are locked until then. */
const GONE_MS = 5000;
/** A POST to the console is refused by the Worker alone: no object, no file, no line in the audit log. */
export const PROBE_PATH = "/ui/?supervisor";

/** wrangler as a library: no network, no files elsewhere, no output. */
export const QUIET_WRANGLER = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_LOG: "warn",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_WRITE_LOGS: "false",
  // The first serves the stored data to any caller of the port, the second stores every request.
  X_LOCAL_EXPLORER: "false",
  X_LOCAL_OBSERVABILITY: "false",
};

/**
 * A small young generation: its collections take 1 ms instead of 6 to 45, and the heap is half as large
 * (docs/internals/benchmarks.md).
 */
export const V8_FLAGS = "--max-semi-space-size=1 --min-semi-space-size=1";

/** Bundles the Worker into `dir`, and prepares its data. Call only while no process serves the data in `dataDir`. */
export async function buildWorker(message: ToBuild, signal: AbortSignal): Promise<void> {
  const child = fork(fileURLToPath(import.meta.resolve("./build-child.ts")), [], {
    // Its output is for people, and stdout may be a log.
    stdio: ["ignore", 2, "inherit", "ipc"],
    execArgv: [],
    env: { ...process.env, ...QUIET_WRANGLER },
    signal,
  });
  const exited = once(child, "exit").then(() => ({ failure: "its process ended" }));
  child.send(message, () => {});
  const answer: FromBuild = await Promise.race([once(child, "message").then(([received]) => received), exited]);
  if ("failure" in answer) throw new Refusal(`The Worker could not be built: ${answer.failure}`);
  await exited;
}

/** One run of the runtime: a process group that serves the Worker until it is stopped or no longer responds. */
export class Runtime {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  #url = "";

  /**
   * The process starts at once, to load its code before its work.
   * @param builtDir the Worker, and the runtime's temporary files, which no other program removes there
   * @param script calls `serveWorkers`
   * @param v8Flags of all its isolates
   */
  constructor(
    builtDir: string,
    stdio: "inherit" | "pipe" | "ignore" = "inherit",
    script = import.meta.resolve("./runtime-child.ts"),
    v8Flags = V8_FLAGS,
  ) {
    const tmp = join(builtDir, "tmp");
    mkdirSync(tmp, { recursive: true, mode: 0o700 });
    this.#child = fork(fileURLToPath(script), [], {
      // A separate process group: Ctrl-C reaches only the process that stops the others in order.
      detached: true,
      stdio: ["ignore", stdio, stdio, "ipc"],
      execArgv: [],
      env: { ...process.env, ...QUIET_WRANGLER, MINIFLARE_WORKERD_V8_FLAGS: v8Flags, TMPDIR: resolve(tmp) },
    });
    this.#exited = once(this.#child, "exit").then(() => undefined);
    try {
      writeFileSync(join(builtDir, "pid"), `${this.pid} ${startTime(this.pid)}\n`, { mode: 0o600 });
    } catch {
      // A full disk: an orphan remains only if the parent is killed while its runtime is frozen.
    }
  }

  /** Serves the Worker. @returns its address */
  async serve<Message extends ToRuntime>(message: Message, signal: AbortSignal): Promise<string> {
    // An error here means that the process has ended, which is awaited below.
    this.#child.send(message, () => {});
    const answer: FromRuntime = await Promise.race([
      this.#told(signal),
      this.#exited.then(() => ({ failure: "its process ended" })),
    ]);
    if ("failure" in answer) throw new Refusal(`The Worker did not start: ${answer.failure}`);
    this.#url = answer.url;
    return answer.url;
  }

  /** Its output, when piped. */
  get outputs(): Readable[] {
    return [this.#child.stdout, this.#child.stderr].filter((stream) => stream !== null);
  }

  /** Of the whole group. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  get exited(): Promise<void> {
    return this.#exited;
  }

  /** Resolves with the reason when it no longer serves. */
  async failed(signal: AbortSignal, rhythm?: Rhythm): Promise<string> {
    const over = new AbortController();
    const both = AbortSignal.any([signal, over.signal]);
    try {
      return await Promise.race([
        this.#exited.then(() => "its process ended"),
        silence((ms) => pinged(this.#child, ms), both, rhythm).then(() => "its process does not respond"),
        silence((ms) => probe(this.#url, ms), both, rhythm).then(() => "it does not answer requests"),
      ]);
    } finally {
      over.abort();
    }
  }

  async stop(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await Promise.race([this.#exited, sleep(STOP_MS)]);
    await this.kill();
  }

  /** Sends SIGKILL to every process of the group, including frozen ones. */
  async kill(): Promise<void> {
    await killGroup(this.pid);
    await this.#exited;
  }

  async #told(signal: AbortSignal): Promise<FromRuntime> {
    for (;;) {
      const [message] = await once(this.#child, "message", { signal });
      if (typeof message === "object") return message;
    }
  }
}

/** Ends an orphaned runtime, whose parent was killed while it was frozen: two on one state would corrupt it. */
export async function endLeftover(builtDir: string): Promise<void> {
  const file = join(builtDir, "pid");
  if (!existsSync(file)) return;
  const [pid = 0, started] = readFileSync(file, "utf8").trim().split(" ").map(Number);
  if (pid > 0 && isAlive(pid) && startTime(pid) === started) await killGroup(pid);
}

async function killGroup(pid: number): Promise<void> {
  const deadline = performance.now() + GONE_MS;
  for (let left = true; left && performance.now() < deadline; ) {
    try {
      process.kill(-pid, "SIGKILL");
      await sleep(20);
    } catch {
      left = false;
    }
  }
}

/** On a new connection: open ones may work while no new one is accepted. */
function probe(url: string, ms: number): Promise<Response> {
  return new Promise((resolve) => {
    const asked = request(`${url}${PROBE_PATH}`, { method: "POST", agent: false, timeout: ms }, (answer) => {
      answer.resume();
      resolve("well");
    });
    // A refused connection means that no process listens; other failures may be transient.
    asked.on("error", (failure) => resolve("code" in failure && failure.code === "ECONNREFUSED" ? "gone" : "late"));
    asked.on("timeout", () => asked.destroy());
    asked.end();
  });
}

/** Version of the current migrations, which differs after any change. */
export function migrationsVersion(): string {
  const hash = createHash("sha256");
  for (const name of readdirSync("migrations").sort())
    hash.update(`${name}\0${readFileSync(join("migrations", name))}\0`);
  return hash.digest("hex").slice(0, 16);
}
