/**
 * A process that `npm start` runs beside the runtime. It is restarted when it crashes or does not respond, and ends with
 * `npm start`.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { pinged, type Rhythm, silence } from "./heartbeat.ts";

interface Program {
  /** Its name in warnings. */
  readonly what: string;
  /** Its program, which answers pings (`heartbeat.ts`) and exits with its parent. */
  readonly module: URL;
  readonly env?: Readonly<Record<string, string>>;
  /** Log file for its output; absent: the output of `npm start`. */
  readonly log?: string;
  /** Pause before its first restart. */
  readonly pauseMs?: number;
  /** Time for its exit before it is killed. */
  readonly stopMs?: number;
  /** The health check. */
  readonly rhythm?: Rhythm;
}

/** Callbacks at the start and the end of each run. */
interface Care {
  /** Sends its arguments. */
  begin(child: ChildProcess): Promise<void>;
  /** Reason against a restart by exit code; undefined: restart. */
  forGood(code: number | null): string | undefined;
}

const STOP_MS = 5_000;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** Run time after which a start counts as successful. */
const STEADY_MS = 60_000;

export class LocalChild {
  readonly #program: Program;
  readonly #stopping = new AbortController();
  #child: ChildProcess;
  #living: Promise<void> = Promise.resolve();

  /** The process starts at once and loads its code in parallel with the service; `keep` starts its work. */
  constructor(program: Program) {
    this.#program = program;
    this.#child = this.#spawn("w");
  }

  /** Aborts to stop it. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Id of the running process; 0 if it could not be started. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Restarts it after each crash. */
  keep(care: Care): void {
    this.#living = this.#live(care);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const { pid } = this.#child;
    if (this.#child.connected) this.#child.disconnect();
    await Promise.race([this.#living, sleep(this.#program.stopMs ?? STOP_MS)]);
    killGroup({ pid });
  }

  async #live({ begin, forGood }: Care): Promise<void> {
    const { signal } = this.#stopping;
    const { log, pauseMs = FIRST_PAUSE_MS, rhythm } = this.#program;
    for (let pause = pauseMs; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      const began = performance.now();
      const child = this.#child;
      const exited = hasExited(child) ? Promise.resolve([child.exitCode, child.signalCode]) : once(child, "exit");
      const over = new AbortController();
      void silence((ms) => pinged(child, ms), AbortSignal.any([signal, over.signal]), rhythm).then(() =>
        killGroup(child),
      );
      await begin(child).catch((failure) => {
        if (!signal.aborted) this.#say(`cannot be started: ${failure instanceof Error ? failure.message : failure}.`);
        child.kill();
      });
      const [code, killedBy] = (await exited) as [number | null, string | null];
      over.abort();
      if (signal.aborted) return;
      const why = forGood(code);
      if (why) return this.#say(`has ended: ${why}.`);
      this.#say(`has ended (${killedBy ?? code}) and is started again${log ? `; ${log} may say why` : ""}.`);
      if (performance.now() - began > STEADY_MS) pause = pauseMs;
      await sleep(pause, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      this.#child = this.#spawn("a");
    }
  }

  /** @param flag `w` empties the log first */
  #spawn(flag: "w" | "a"): ChildProcess {
    const { module, env, log } = this.#program;
    const output = log === undefined ? "inherit" : openSync(log, flag, 0o600);
    try {
      return fork(fileURLToPath(module), [], {
        // A separate process group: Ctrl-C reaches only the process that stops the others in order.
        detached: true,
        stdio: ["ignore", output, output, "ipc"],
        env: { ...process.env, ...env },
      });
    } finally {
      if (typeof output === "number") closeSync(output);
    }
  }

  #say(what: string): void {
    console.warn(`The ${this.#program.what} ${what}`);
  }
}

function killGroup({ pid }: { readonly pid?: number | undefined }): void {
  try {
    process.kill(-Number(pid), "SIGKILL");
  } catch {
    // The group is empty, as expected.
  }
}

const hasExited = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;
