import type { Environment } from "./command.ts";

const INTERVAL_MS = 250;

/**
 * Ends a program that npx started when npx ends. npx passes a signal to the shell between the two only, which ends and
 * leaves the program without a parent (https://github.com/npm/cli/issues/6684).
 */
export function endWithNpx(env: Environment): void {
  if (env["npm_lifecycle_event"] !== "npx") return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGTERM");
  }, INTERVAL_MS);
  timer.unref();
}
