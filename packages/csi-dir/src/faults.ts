import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Rpc } from "@sallyport/csi-wire";
import * as z from "zod";
import { Refusal } from "./refusal.ts";

const count = z.int().nonnegative();

/** How one call misbehaves. */
const fault = z.strictObject({
  /** Ends with this code instead, the first `times` times. */
  fail: z
    .strictObject({ code: z.int().min(1).max(16), times: count.default(1), message: z.string().optional() })
    .optional(),
  delayMs: count.optional(),
  /** Never answers, the first `hang` times. */
  hang: count.optional(),
  /** The first call ends the process: before anything is done, or when all is done and nothing answered. */
  crash: z.enum(["before", "after"]).optional(),
});

const faults = z.strictObject({
  calls: z.record(z.string(), fault).default({}),
  /** Between two steps of a call, while it holds its locks. */
  stepMs: count.default(0),
  /** The step, counted from 1 since the file was changed, after which the process is killed. */
  crashAtStep: count.default(0),
  /** Lists have more entries than were asked for. */
  surplusEntries: count.default(0),
  /** The probe says that the driver is not ready. Otherwise it says nothing, as drivers do. */
  unready: z.boolean().default(false),
  /** Validation confirms nothing. */
  withoutConfirmed: z.boolean().default(false),
  /** A new snapshot is not ready for so long. */
  snapshotReadyAfterMs: count.default(0),
  /** Calls that take secrets refuse without this one. */
  requireSecret: z.strictObject({ name: z.string(), value: z.string() }).optional(),
  /** Refusals quote the secrets they were given. */
  leakSecrets: z.boolean().default(false),
  /** Capabilities, by number, that are not offered. */
  withoutControllerRpcs: z.array(count).default([]),
  withoutNodeRpcs: z.array(count).default([]),
  /** Answers of a volume's creation carry this much of context. */
  contextBytes: count.default(0),
});
export type FaultSettings = z.infer<typeof faults>;

/**
 * For tests only: a file, read anew at each call, says how to misbehave. Beside it a `.calls` file gets a line for each call, so
 * that tests see what was called, and what happens the first times only is counted across restarts.
 */
export class Faults {
  readonly #path: string | undefined;
  #text: string | undefined;
  #steps = 0;

  constructor(path: string | undefined) {
    this.#path = path;
  }

  get now(): FaultSettings {
    const text = this.#path === undefined ? undefined : textOf(this.#path);
    if (text !== this.#text) this.#steps = 0;
    this.#text = text;
    return faults.parse(text === undefined ? {} : JSON.parse(text));
  }

  async around<T>(rpc: Rpc, secrets: Readonly<Record<string, string>> | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#path === undefined) return work();
    const { calls, leakSecrets, requireSecret } = this.now;
    const number = this.#count(rpc);
    const { fail, delayMs = 0, hang = 0, crash } = calls[rpc] ?? {};
    const leak = leakSecrets ? ` ${JSON.stringify(secrets ?? {})}` : "";
    if (crash === "before" && number === 1) die();
    await sleep(delayMs);
    if (number <= hang) await new Promise(() => {});
    if (fail && number <= fail.times) throw new Refusal(fail.code, (fail.message ?? "told to fail") + leak);
    if (requireSecret && secrets && secrets[requireSecret.name] !== requireSecret.value)
      throw new Refusal(16, `the secret ${requireSecret.name} is wrong`);
    const answer = await work();
    if (crash === "after" && number === 1) die();
    return answer;
  }

  async step(): Promise<void> {
    if (this.#path === undefined) return;
    const { stepMs, crashAtStep } = this.now;
    this.#steps++;
    if (this.#steps === crashAtStep) die();
    await sleep(stepMs);
  }

  /** How often a call was made, this time included. */
  #count(rpc: Rpc): number {
    const path = `${this.#path}.calls`;
    appendFileSync(path, `${rpc}\n`);
    return readFileSync(path, "utf8")
      .split("\n")
      .filter((line) => line === rpc).length;
  }
}

/** In an instant: nobody can prepare for it. */
const die = () => process.kill(process.pid, "SIGKILL");

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
