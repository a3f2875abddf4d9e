import { type ChildProcess, spawn } from "node:child_process";
import { COMMANDS } from "../../packages/cli/src/commands.ts";
import { runProgram } from "../../packages/cli/src/program.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { programOf } from "./prepared-program.ts";

/** The commands of `sallyport`: in this process, or as a process of its own. */

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

/** Commands that take signals, or whose programs inherit the standard output. */
const OWN_PROCESS = /^(run|kv edit|events tail) /;

/** A process is started for its standard input, signals or certificates only: it needs 0.2 s of CPU. */
export function cli(args: readonly string[], env: Readonly<Record<string, string>>, input = ""): Promise<Ended> {
  const readsInput = input !== "" || args.includes("-");
  const isOwn = OWN_PROCESS.test(args.join(" ")) && args.at(-1) !== "--help";
  const needsProcess = readsInput || isOwn || "NODE_EXTRA_CA_CERTS" in env;
  return needsProcess ? startCli(args, env, input).ended : inThisProcess(args, env);
}

async function inThisProcess(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  const texts = { out: "", err: "" };
  const code = await runProgram(COMMANDS, args, {
    // No login of the caller's home.
    env: { ...PROGRAM_ENV, HOME: "/nonexistent", ...env },
    isTerminal: false,
    out: (line) => (texts.out += `${line}\n`),
    write: (text) => (texts.out += text),
    note: (line) => (texts.err += `${line}\n`),
  });
  return { code, ...texts };
}
