/**
 * Keeps the runtime serving: checks that it and its process respond, and replaces a runtime that does not. State is on
 * disk, so the next run continues with every acknowledged write.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Rhythm } from "./heartbeat.ts";
import { Runtime, type ToRuntime } from "./runtime.ts";

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 30_000;
/** Run time after which a start counts as successful. */
const STEADY_MS = 60_000;
/** Time limit of a start. */
const START_MS = 120_000;

export class Supervisor {
  readonly #message: ToRuntime;
  readonly #rhythm: Rhythm | undefined;
  #runtime: Runtime;
  #url = "";

  /** The first process starts at once, and loads its code meanwhile. */
  constructor(message: ToRuntime, rhythm?: Rhythm) {
    this.#message = message;
    this.#rhythm = rhythm;
    this.#runtime = new Runtime(message.builtDir);
  }

  get runtime(): Runtime {
    return this.#runtime;
  }

  /** @returns the address of the first runtime @throws Refusal */
  async begin(signal: AbortSignal): Promise<string> {
    this.#url = await this.#runtime.serve(this.#message, signal);
    return this.#url;
  }

  /** Replaces it after each failure, until `signal` aborts. @param moved receives its port; null: down */
  async keep(signal: AbortSignal, moved: (port: number | null) => void): Promise<void> {
    moved(portOf(this.#url));
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; ) {
      const began = performance.now();
      const aborted = new Promise<undefined>((resolve) => signal.addEventListener("abort", () => resolve(undefined)));
      const because = await Promise.race([this.#runtime.failed(signal, this.#rhythm), aborted]);
      if (because === undefined) return;
      moved(null);
      console.warn(`The service is started again: ${because}.`);
      if (performance.now() - began > STEADY_MS) pause = FIRST_PAUSE_MS;
      while (!(await this.#replaced(signal, pause))) pause = Math.min(pause * 2, MAX_PAUSE_MS);
      if (!signal.aborted) moved(portOf(this.#url));
      pause = Math.min(pause * 2, MAX_PAUSE_MS);
    }
  }

  async stop(): Promise<void> {
    await this.#runtime.stop();
  }

  async #replaced(signal: AbortSignal, pause: number): Promise<boolean> {
    await this.#runtime.kill();
    await sleep(pause, undefined, { signal }).catch(() => {});
    if (signal.aborted) return true;
    try {
      this.#runtime = new Runtime(this.#message.builtDir);
      this.#url = await this.#runtime.serve(this.#message, AbortSignal.any([signal, AbortSignal.timeout(START_MS)]));
      return true;
    } catch (failure) {
      if (!signal.aborted) console.warn(failure instanceof Error ? failure.message : failure);
      return signal.aborted;
    }
  }
}

const portOf = (url: string): number => Number(new URL(url).port);
