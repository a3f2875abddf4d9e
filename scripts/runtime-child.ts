/**
 * Runs the Worker on wrangler's own dev server, in a process group of its own. Settings arrive as a message, because
 * a command line shows in `ps` and an env file has quoting rules that some secrets do not survive.
 * It ends when its parent does, however the parent ended, and takes its whole group along.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { unstable_startWorker } from "wrangler";
import { fillBucket } from "./bucket.ts";
import type { FromRuntime, ToRuntime } from "./runtime.ts";

const DISPOSE_MS = 2000;
let worker: Awaited<ReturnType<typeof unstable_startWorker>> | undefined;

process.once("message", (message: ToRuntime) => void start(message));
process.once("disconnect", () => void leave());

async function start({ bindings, dataDir, files, log }: ToRuntime): Promise<void> {
  try {
    if (files) await fillBucket(dataDir, files);
    worker = await unstable_startWorker({
      config: "wrangler.toml",
      // What is deployed is small, what runs here can be read.
      build: { minify: false, keepNames: true },
      bindings: Object.fromEntries(
        Object.entries(bindings).map(([name, value]) => [name, { type: "secret_text", value }]),
      ),
      dev: {
        server: { hostname: "127.0.0.1", port: 0 },
        inspector: false,
        persist: dataDir,
        watch: true,
        logLevel: log ? "log" : "warn",
        // Asked for by itself: each request has its lines in the audit log, and what the starter says would drown in them.
        structuredLogsHandler: ({ level, message: line }: { level: string; message: string }) => {
          const isTrouble = level === "error" || level === "warn";
          if (isTrouble || log) (isTrouble ? process.stderr : process.stdout).write(`${line}\n`);
        },
      },
    });
    tell({ url: (await worker.url).origin });
  } catch (failure) {
    const cause = failure instanceof Error && failure.cause instanceof Error ? failure.cause : failure;
    tell({ failure: cause instanceof Error ? cause.message : String(cause) });
  }
}

function tell(message: FromRuntime): void {
  process.send?.(message);
}

async function leave(): Promise<void> {
  await Promise.race([worker?.dispose(), sleep(DISPOSE_MS)]);
  process.kill(-process.pid, "SIGKILL");
}
