import { type ChildProcess, spawn } from "node:child_process";
import type { PluginLimits } from "./plugin.ts";

/** How long the output of a process that has ended is waited for: somebody outside its group may hold the pipe. */
const DRAIN_MS = 500;

export interface Execution {
  readonly file: string;
  readonly argument: string;
  readonly directory: string;
  /** All of it: nothing is inherited. */
  readonly environment: Readonly<Record<string, string>>;
  readonly limitMs: number;
  readonly limits: PluginLimits;
}

export interface Ended {
  readonly how:
    | { readonly type: "exit"; readonly code: number }
    | { readonly type: "signal"; readonly signal: string }
    | { readonly type: "timeout" }
    | { readonly type: "not-started"; readonly failure: unknown };
  /** Its beginning, up to the limit. */
  readonly stdout: string;
  /** There was more of it. */
  readonly flooded: boolean;
  /** Its beginning, up to the limit. */
  readonly stderr: string;
}

/**
 * Runs an executable once, without a shell, in a process group of its own. Nothing of the group outlives the call:
 * it is asked to end at the limit and killed soon after, or as soon as its leader has ended.
 */
export function execute({ file, argument, directory, environment, limitMs, limits }: Execution): Promise<Ended> {
  return new Promise((resolve) => {
    let child: ChildProcess;
    try {
      child = spawn(file, [argument], {
        cwd: directory,
        env: environment,
        detached: true,
        shell: false,
        stdio: ["ignore", "pipe", "pipe"],
      });
    } catch (failure) {
      return resolve({ how: { type: "not-started", failure }, stdout: "", flooded: false, stderr: "" });
    }

    let how: Ended["how"] | undefined;
    // What is beyond the limit is read and dropped: a plugin that is cut off might leave anything.
    let flooded = false;
    const stdout = capped(child.stdout, limits.stdoutBytes, () => {
      flooded = true;
    });
    const stderr = capped(child.stderr, limits.stderrBytes);

    const timers = [setTimeout(atLimit, limitMs)];
    function atLimit() {
      how ??= { type: "timeout" };
      signalGroup(child, "SIGTERM");
      timers.push(
        setTimeout(() => signalGroup(child, "SIGKILL"), limits.killGraceMs),
        // Not even that ends a process that waits for a broken disk.
        setTimeout(finish, limits.killGraceMs + DRAIN_MS),
      );
    }

    child.on("error", (failure) => {
      how ??= { type: "not-started", failure };
      finish();
    });
    child.on("exit", (code, signal) => {
      how ??= signal === null ? { type: "exit", code: code ?? -1 } : { type: "signal", signal };
      signalGroup(child, "SIGKILL");
      timers.push(setTimeout(finish, DRAIN_MS));
    });
    child.on("close", finish);

    function finish() {
      for (const timer of timers) clearTimeout(timer);
      child.stdout?.destroy();
      child.stderr?.destroy();
      child.unref();
      resolve({ how: how ?? { type: "timeout" }, stdout: stdout(), flooded, stderr: stderr() });
    }
  });
}

/** Reads a stream to its end but keeps at most `most` bytes of it; `onFlood` is told when there are more. */
function capped(stream: NodeJS.ReadableStream | null, most: number, onFlood?: () => void): () => string {
  const chunks: Buffer[] = [];
  let kept = 0;
  stream?.on("data", (chunk: Buffer) => {
    const part = chunk.subarray(0, most - kept);
    if (part.length > 0) chunks.push(part);
    kept += part.length;
    if (part.length < chunk.length) onFlood?.();
  });
  stream?.on("error", () => {});
  return () => Buffer.concat(chunks).toString("utf8");
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  // Zero would be our own group.
  if (child.pid === undefined || child.pid <= 1) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The whole group has ended.
  }
}
