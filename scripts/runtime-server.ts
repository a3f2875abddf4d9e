/**
 * A process of the local runtime, in a group of its own. Settings arrive as a message, because a command line shows in
 * `ps` and an env file has quoting rules that some secrets do not survive. It exits with its parent, for any end of the
 * parent, and kills its whole group.
 */
import { readFileSync } from "node:fs";
import { createRequire, flushCompileCache } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Miniflare as MiniflareClass } from "miniflare";
import { isFull } from "./disk.ts";
import { answerPings, instructions } from "./heartbeat.ts";
import { jsonLine, printJsonLines } from "./json-lines.ts";
import { type FromRuntime, PROBE_PATH, type ToRuntime } from "./runtime.ts";
import { isRuntimeNoise } from "./runtime-log.ts";

/** The runtime included in wrangler: another version could store data differently. */
const { Miniflare, convertV4MiniflareOptions, Log, LogLevel, Response } = createRequire(
  fileURLToPath(import.meta.resolve("wrangler")),
)("miniflare") as typeof import("miniflare");

const DISPOSE_MS = 2000;

/** The part of wrangler's options that is read here; the rest is passed on. */
interface WorkerOptions {
  readonly name: string;
  readonly bindings: Readonly<Record<string, string>>;
  readonly durableObjects: Record<string, DurableObjectOptions>;
  readonly queueConsumers?: string[];
}

export interface DurableObjectOptions {
  readonly className: string;
  readonly useSQLite?: boolean;
  /** The Worker that has the class; absent: the same. */
  readonly scriptName?: string;
  /** The name of the class's directory on disk. */
  readonly unsafeUniqueKey?: string;
}

/** One line for each request, but not for the supervisor's. */
class RequestLog extends Log {
  override log(message: string): void {
    if (!message.includes(PROBE_PATH)) super.log(message);
  }
}

/** A Worker in the form of the runtime. */
export type LocalWorker = ReturnType<typeof builtWorker>;

let worker: MiniflareClass | undefined;

/**
 * Serves the Workers that the parent's message asks for; the first of them receives the requests. Call once, in a process
 * of its own.
 */
export function serveWorkers<Message extends ToRuntime>(workersOf: (message: Message) => LocalWorker[]): void {
  // Only the owner can access the data.
  process.umask(0o077);
  answerPings();
  void instructions<Message>().then((message) => start(message, () => workersOf(message)));
  process.once("disconnect", () => void leave());
}

/** The bundle in a directory that `buildWorker` has written. */
export function builtWorker(
  builtDir: string,
  given: Readonly<Record<string, string>>,
  trustedCas: readonly string[] = [],
) {
  const path = join(builtDir, "worker.js");
  const { bindings, ...options } = JSON.parse(readFileSync(join(builtDir, "worker.json"), "utf8")) as WorkerOptions;
  return {
    ...options,
    bindings: { ...bindings, ...given },
    serviceBindings: {
      LOCAL_DISK: () => new Response(isFull(join(builtDir, "tmp")) ? "full" : "room"),
      // Names are resolved by the runtime, which connects to none of the private addresses.
      PUBLIC_NETWORK: {
        network: { allow: ["public"], tlsOptions: { trustBrowserCas: true, trustedCertificates: [...trustedCas] } },
      },
    },
    modulesRoot: builtDir,
    modules: [{ type: "ESModule" as const, path, contents: readFileSync(path, "utf8") }],
  };
}

async function start(
  { dataDir, builtDir, log, json = false }: ToRuntime,
  workersOf: () => LocalWorker[],
): Promise<void> {
  if (json) printJsonLines();
  try {
    worker = new Miniflare(
      convertV4MiniflareOptions({
        host: "127.0.0.1",
        port: 0,
        log: new RequestLog(log ? LogLevel.INFO : LogLevel.WARN, { prefix: "service" }),
        logRequests: log,
        resourcePersistencePath: join(dataDir, "v3"),
        resourceTmpPath: join(builtDir, "tmp"),
        unsafeLocalExplorer: false,
        unsafeObservability: false,
        unsafeTriggerHandlers: false,
        // Only on request: each request has lines in the audit log, which would hide other output.
        handleStructuredLogs: ({ level, message: line }) => {
          if (!log && isRuntimeNoise(line)) return;
          if (json) {
            const severity = level === "error" || level === "warn" || level === "debug" ? level : "info";
            process.stdout.write(jsonLine(severity, line, "runtime"));
            return;
          }
          const isTrouble = level === "error" || level === "warn";
          if (isTrouble || log) (isTrouble ? process.stderr : process.stdout).write(`${line}\n`);
        },
        workers: workersOf(),
      }),
    );
    tell({ url: (await worker.ready).origin });
    // The process is killed at its end, before the cache would be written; without a cache this does nothing.
    flushCompileCache();
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
