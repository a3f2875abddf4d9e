/** The Worker's runtime as `npm start` sees it: a child process that can be started, waited for and stopped. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { LocalFile } from "./files.ts";
import { Refusal } from "./settings.ts";

export interface ToRuntime {
  bindings: Record<string, string>;
  dataDir: string;
  /** What the bucket FILES is to hold; left out when it holds that already. */
  files?: LocalFile[];
  log: boolean;
}

export type FromRuntime = { url: string } | { failure: string };

const STOP_MS = 5000;

/** wrangler as a part, not as a tool: no network, no files elsewhere, no words of its own. */
export const QUIET_WRANGLER = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_LOG: "warn",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_WRITE_LOGS: "false",
  // The first serves the stored data to anybody on the port, the second stores every request.
  X_LOCAL_EXPLORER: "false",
  X_LOCAL_OBSERVABILITY: "false",
};

export class Runtime {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;

  /** The process starts at once: it has a second's worth of code to load before it is given anything to do. */
  constructor() {
    this.#child = fork(fileURLToPath(import.meta.resolve("./runtime-child.ts")), [], {
      // A group of its own: Ctrl-C reaches only the process that stops the others in order.
      detached: true,
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      env: { ...process.env, ...QUIET_WRANGLER },
    });
    this.#exited = once(this.#child, "exit").then(() => undefined);
  }

  /** Serves the Worker and answers with its address. */
  async serve(message: ToRuntime, signal: AbortSignal): Promise<string> {
    // An error here means that the process is gone, and that is awaited below.
    this.#child.send(message, () => {});
    const answer: FromRuntime = await Promise.race([
      once(this.#child, "message", { signal }).then(([received]) => received),
      this.#exited.then(() => ({ failure: "its process ended" })),
    ]);
    if ("failure" in answer) throw new Refusal(`The Worker did not start: ${answer.failure}`);
    return answer.url;
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  get exited(): Promise<void> {
    return this.#exited;
  }

  async stop(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await Promise.race([this.#exited, sleep(STOP_MS)]);
    try {
      process.kill(-Number(this.#child.pid), "SIGKILL");
    } catch {
      // Nobody is left in the group, as it should be.
    }
  }
}

/** Names the migrations as they are now: any change to a file is another version. */
export function migrationsVersion(): string {
  const hash = createHash("sha256");
  for (const name of readdirSync("migrations").sort())
    hash.update(`${name}\0${readFileSync(join("migrations", name))}\0`);
  return hash.digest("hex").slice(0, 16);
}

/** wrangler does not migrate a local database by itself. */
export async function migrate(dataDir: string, signal: AbortSignal): Promise<void> {
  const wrangler = fileURLToPath(import.meta.resolve("wrangler"));
  const args = ["d1", "migrations", "apply", "LISTINGS", "--local", "--persist-to", dataDir];
  const child = spawn(process.execPath, ["--no-warnings", wrangler, ...args], {
    // Closed, so that it cannot stop to ask.
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "log" },
    signal,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Refusal(`The database in ${dataDir} could not be migrated:\n${output.trim()}`);
}
