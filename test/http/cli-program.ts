import { type ChildProcess, spawn } from "node:child_process";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { programOf } from "./prepared-program.ts";

/** The program `sallyport` as a process. */

export interface Ended {
  /** Null after a signal. */
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

export function startCli(args: readonly string[], env: Readonly<Record<string, string>>, input = ""): Started {
  const child = spawn(process.execPath, [programOf("packages/cli/src/main.ts"), ...args], {
    env: { ...PROGRAM_ENV, ...env },
  });
  const texts = { out: "", err: "" };
  child.stdout.on("data", (bytes) => (texts.out += bytes));
  child.stderr.on("data", (bytes) => (texts.err += bytes));
  child.stdin.on("error", () => undefined).end(input);
  return {
    child,
    ended: new Promise((resolve) => child.once("close", (code) => resolve({ code, ...texts }))),
  };
}

export const cli = (args: readonly string[], env: Readonly<Record<string, string>>, input = ""): Promise<Ended> =>
  startCli(args, env, input).ended;
