import { type ChildProcess, spawn } from "node:child_process";
import type { PluginLimits } from "./plugin.ts";

/** How long output is awaited after the exit: a process outside the group may hold the pipe. */
const DRAIN_MS = 500;

interface Execution {
  readonly file: string;
  readonly argument: string;
  readonly directory: string;
  /** The complete environment; nothing is inherited. */
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
  /** The output up to the limit. */
  readonly stdout: string;
  /** Whether there was more output. */
  readonly flooded: boolean;
  /** The output up to the limit. */
  readonly stderr: string;
}

/**
 * Runs an executable once, without a shell, in its own process group. No process of the group survives the call: the
 * group gets SIGTERM at the limit and SIGKILL soon after, or as soon as its leader exits.
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
    // Output beyond the limit is read and dropped, since killing the plugin could leave a partial volume.
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
        // SIGKILL does not end a process in uninterruptible disk wait.
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

/** Reads a stream to its end and keeps at most `most` bytes. @param onFlood called when there are more */
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
  // Zero would signal the agent's own group.
  if (child.pid === undefined || child.pid <= 1) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group has exited.
  }
}
