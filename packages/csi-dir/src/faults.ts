import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Rpc } from "@sallyport/csi-wire";
import * as z from "zod";
import { Refusal } from "./refusal.ts";

const count = z.int().nonnegative();

/** Between two reads of the file during a delay. */
const LOOK_MS = 20;

/** The injected fault of one call. */
const fault = z.strictObject({
  /** Fails with this code, the first `times` times. */
  fail: z
    .strictObject({ code: z.int().min(1).max(16), times: count.default(1), message: z.string().optional() })
    .optional(),
  delayMs: count.optional(),
  /** Never responds, the first `hang` times. */
  hang: count.optional(),
  /** The first call kills the process: before its work, or after the work without a response. */
  crash: z.enum(["before", "after"]).optional(),
});

const faults = z.strictObject({
  calls: z.record(z.string(), fault).default({}),
  /** Delay between two steps of a call, which holds its locks meanwhile. */
  stepMs: count.default(0),
  /** The step after which the process is killed, counted from 1 since the last change of the file. */
  crashAtStep: count.default(0),
  /** Lists return more entries than requested. */
  surplusEntries: count.default(0),
  /** The probe reports not ready. Otherwise it reports nothing, as drivers commonly do. */
  unready: z.boolean().default(false),
  /** Validation confirms nothing. */
  withoutConfirmed: z.boolean().default(false),
  /** How long a new snapshot is not ready. */
  snapshotReadyAfterMs: count.default(0),
  /** Calls with secrets fail without this one. */
  requireSecret: z.strictObject({ name: z.string(), value: z.string() }).optional(),
  /** Error messages quote the secrets of the request. */
  leakSecrets: z.boolean().default(false),
  /** Capabilities, by number, that are not offered. */
  withoutControllerRpcs: z.array(count).default([]),
  withoutNodeRpcs: z.array(count).default([]),
  /** Creation responses carry this many bytes of context. */
  contextBytes: count.default(0),
});
type FaultSettings = z.infer<typeof faults>;

/**
 * Fault injection for tests: a file, read at each call, defines the faults; a delay ends early when the file no longer
 * has it. A `.calls` file beside it gets a line per call, so that tests see the calls, and limited faults are counted
 * across restarts. A `.steps` file gets a line per delay between two steps.
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
    await sleepWhile(delayMs, () => (this.now.calls[rpc]?.delayMs ?? 0) > 0);
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
    if (stepMs > 0) appendFileSync(`${this.#path}.steps`, "step\n");
    await sleepWhile(stepMs, () => this.now.stepMs > 0);
  }

  /** The number of a call, this one included. */
  #count(rpc: Rpc): number {
    const path = `${this.#path}.calls`;
    appendFileSync(path, `${rpc}\n`);
    return readFileSync(path, "utf8")
      .split("\n")
      .filter((line) => line === rpc).length;
  }
}

/** Sleeps for `ms`, or until the file no longer asks for it. */
async function sleepWhile(ms: number, isAsked: () => boolean): Promise<void> {
  const end = Date.now() + ms;
  do await sleep(Math.min(ms, LOOK_MS));
  while (Date.now() < end && isAsked());
}

/** SIGKILL, so that no cleanup runs. */
const die = () => process.kill(process.pid, "SIGKILL");

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
