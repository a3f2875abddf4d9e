import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";

export interface Step {
  readonly step: string;
  /** `ok`, or the error. */
  readonly outcome: string;
}

/** The steps that a flow printed, one line of JSON each. */
const stepsIn = (output: string): Step[] =>
  output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Step);

/** Runs a program that prints its steps. @throws Error when the program itself fails, or takes longer than `timeout` ms */
export async function stepsOf(program: string, args: readonly string[], timeout: number): Promise<Step[]> {
  // Clients send the token in the caller's home, where there is one.
  const env = { ...process.env, HOME: tmpdir() };
  const child = spawn(program, args, { env, timeout, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  child.stdout.on("data", (bytes) => (output += bytes));
  child.stderr.on("data", (bytes) => (errors += bytes));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${errors}${output}`);
  return stepsIn(output);
}
