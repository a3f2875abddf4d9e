/** A lock file with its holder's identity, so that a lock left by a crash is recognised. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { isAlive, startTime } from "./processes.ts";
import { Refusal } from "./settings.ts";

/** Takes the lock. @throws Refusal when a running process has it */
export function lock(path: string, what: string): void {
  const mine = `${process.pid} ${startTime(process.pid)}\n`;
  // Twice: the first attempt may find the lock of an ended process.
  for (const _attempt of [1, 2]) {
    try {
      writeFileSync(path, mine, { flag: "wx", mode: 0o600 });
      return;
    } catch (failure) {
      if (!(failure instanceof Error && "code" in failure && failure.code === "EEXIST")) throw failure;
    }
    const [pid = Number.NaN, started] = readFileSync(path, "utf8").trim().split(" ").map(Number);
    if (pid !== process.pid && isAlive(pid) && startTime(pid) === started) {
      throw new Refusal(
        `${what} is in use by another npm start (process ${pid}): stop that one, or set STATE_DIR to another directory.`,
      );
    }
    rmSync(path, { force: true });
  }
  throw new Refusal(`${what} is in use by another npm start that began at the same moment.`);
}

export function unlock(path: string): void {
  rmSync(path, { force: true });
}
