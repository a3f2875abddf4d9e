import { existsSync, readFileSync } from "node:fs";

/** Whether a process runs. */
export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // A killed process that its new parent has not reaped yet counts as gone.
  const stat = `/proc/${pid}/stat`;
  return !existsSync(stat) || !readFileSync(stat, "utf8").includes(") Z ");
}
