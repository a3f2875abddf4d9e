import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGateway } from "../../scripts/gateway.ts";
import { type FromRuntime, migrate, QUIET_WRANGLER, type ToRuntime } from "../../scripts/runtime.ts";

/** The service as `npm start` runs it: the runtime as a tree of processes, and the gateway before it, on state that outlives both. */
export class Service {
  readonly dataDir = mkdtempSync(join(tmpdir(), "sallyport-faults-"));
  readonly #bindings: Record<string, string>;
  #child: ChildProcess | undefined;
  /** Has its code loaded, and waits to be told what to serve: so a restart takes half the time. */
  #spare: ChildProcess | undefined;
  #gateway: Server | undefined;
  /** Of the gateway; null while there is no runtime. */
  port: number | null = null;
  /** How often the runtime has been started. */
  starts = 0;
  /** When it was there last time (ms since 1970). */
  startedAt = 0;
  /** What the runtime said last on its error output. */
  said = "";

  constructor(bindings: Record<string, string>) {
    this.#bindings = bindings;
  }

  async create(): Promise<void> {
    await migrate(this.dataDir, AbortSignal.timeout(120_000));
    await this.start();
  }

  async start(): Promise<void> {
    const child = this.#spare ?? this.#fork();
    this.#child = child;
    child.send({ dataDir: this.dataDir, log: false, bindings: this.#bindings } satisfies ToRuntime);
    const answer: FromRuntime = (await once(child, "message", { signal: AbortSignal.timeout(120_000) }))[0];
    if ("failure" in answer) throw new Error(`the runtime did not start: ${answer.failure}`);
    const gateway = createGateway(Number(new URL(answer.url).port));
    gateway.listen(0, "127.0.0.1");
    await once(gateway, "listening");
    this.#gateway = gateway;
    this.port = (gateway.address() as AddressInfo).port;
    this.starts++;
    this.startedAt = Date.now();
    this.#spare = this.#fork();
  }

  /** SIGKILL to every process of the runtime at once: nobody gets to say goodbye. */
  async kill(): Promise<void> {
    await this.#end((child) => process.kill(-Number(child.pid), "SIGKILL"));
  }

  /** Asks the runtime to end, as `npm start` does. */
  async stop(): Promise<void> {
    await this.#end((child) => child.disconnect());
  }

  /** @param keep leaves the state on disk */
  async destroy(keep = false): Promise<void> {
    await this.kill();
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare) {
      const exited = once(spare, "exit");
      process.kill(-Number(spare.pid), "SIGKILL");
      await exited;
    }
    if (!keep) rmSync(this.dataDir, { recursive: true, force: true });
  }

  async #end(how: (child: ChildProcess) => void): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#child = undefined;
    this.port = null;
    this.#gateway?.close();
    const exited = once(child, "exit");
    how(child);
    await exited;
  }

  #fork(): ChildProcess {
    const child = fork(new URL("../../scripts/runtime-child.ts", import.meta.url), [], {
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      execArgv: [],
      env: { ...process.env, ...QUIET_WRANGLER },
    });
    child.stderr?.on("data", (bytes) => {
      this.said = (this.said + bytes).slice(-200_000);
    });
    return child;
  }
}
