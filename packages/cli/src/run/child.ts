import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Environment } from "../command.ts";

/**
 * The program that runs with the secrets.
 *
 *   waiting --signal that ends programs--> ended
 *   started --exit--> ended
 *      |  restart: SIGTERM, after `graceMs` SIGKILL; ended by a signal meanwhile
 *      +----------> started
 */

const FORWARDED = ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;

const ENDING: ReadonlySet<NodeJS.Signals> = new Set(["SIGTERM", "SIGINT", "SIGQUIT"]);

export class Child {
  readonly #words: readonly string[];
  readonly #graceMs: number;
  #process: ChildProcess | undefined;
  #isRestarting = false;
  #isStopped = false;
  #end!: (code: number) => void;
  /** Resolves with the exit code when the program ends by itself, or by a signal to this one. */
  readonly ended = new Promise<number>((resolve) => {
    this.#end = resolve;
  });

  constructor(words: readonly string[], graceMs: number) {
    this.#words = words;
    this.#graceMs = graceMs;
    // A terminal sends the signals of its keys to the program itself.
    for (const signal of FORWARDED)
      process.on(signal, () => {
        const isOfTerminal = (signal === "SIGINT" || signal === "SIGQUIT") && process.stdin.isTTY;
        if (!isOfTerminal || this.#process === undefined) this.signal(signal);
      });
  }

  start(env: Environment, note: (line: string) => void): void {
    if (this.#isStopped) return;
    const [program = "", ...args] = this.#words;
    let started: ChildProcess;
    try {
      started = spawn(program, args, { stdio: "inherit", env: { ...env } });
    } catch (failure) {
      // The message of an invalid variable quotes its value.
      const { code = "" } = failure as NodeJS.ErrnoException;
      note(`${program}: ${code === "E2BIG" ? "the environment is too large: use --files" : `not started (${code})`}`);
      this.#end(126);
      return;
    }
    this.#process = started;
    started.once("error", (failure: NodeJS.ErrnoException) => {
      note(failure.code === "ENOENT" ? `${program}: no such program` : `${program}: ${failure.message}`);
      this.#end(failure.code === "ENOENT" ? 127 : 126);
    });
    started.once("exit", (code, signal) => {
      if (!this.#isRestarting) this.#end(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  }

  signal(signal: NodeJS.Signals): void {
    // The program is not started again.
    if (ENDING.has(signal)) this.#isRestarting = false;
    if (this.#process !== undefined) this.#process.kill(signal);
    else if (ENDING.has(signal) || signal === "SIGHUP") {
      // The first waits for credentials that are on their way, to end them.
      if (this.#isStopped) process.exit(128 + constants.signals[signal]);
      this.#isStopped = true;
      this.#end(128 + constants.signals[signal]);
    }
  }

  async restart(env: Environment, note: (line: string) => void): Promise<void> {
    const old = this.#process;
    if (old === undefined || old.exitCode !== null || old.signalCode !== null) return;
    this.#isRestarting = true;
    const gone = new Promise((resolve) => old.once("exit", resolve));
    old.kill("SIGTERM");
    const waiting = new AbortController();
    const late = sleep(this.#graceMs, undefined, { signal: waiting.signal }).then(
      () => old.kill("SIGKILL"),
      () => undefined,
    );
    await gone;
    waiting.abort();
    await late;
    if (!this.#isRestarting) return;
    this.#isRestarting = false;
    this.start(env, note);
  }
}
