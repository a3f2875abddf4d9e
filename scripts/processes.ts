/** Process information of the system. */
import { readFileSync } from "node:fs";

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie has ended; in a container without an init process it stays.
    return statOf(pid)?.fields[0] !== "Z";
  } catch (failure) {
    return failure instanceof Error && "code" in failure && failure.code === "EPERM";
  }
}

/**
 * Distinguishes a process from a later one with the same id, which is frequent in containers.
 * 0 without /proc: then only ids are compared.
 */
export function startTime(pid: number): number {
  return Number(statOf(pid)?.fields[19] ?? 0);
}

/** Returns a function that tells whether the process that started this one still exists. */
export function watchStarter(): () => boolean {
  const parent = process.ppid;
  // npm runs a script in a shell, and the shell outlives an npm that was killed.
  const inShell = process.env["npm_lifecycle_event"] !== undefined && /^(ba|da)?sh$/.test(statOf(parent)?.name ?? "");
  const grandparent = () => statOf(parent)?.fields[1];
  const npm = inShell ? grandparent() : undefined;
  return () => process.ppid === parent && (npm === undefined || grandparent() === npm);
}

/** Linux only: the name, and the fields after it (state, parent, …). */
function statOf(pid: number): { name: string; fields: string[] } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const end = stat.lastIndexOf(")");
    return { name: stat.slice(stat.indexOf("(") + 1, end), fields: stat.slice(end + 2).split(" ") };
  } catch {
    return undefined;
  }
}
