import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGateway } from "../../scripts/gateway.ts";
import { buildWorker, migrate, Runtime } from "../../scripts/runtime.ts";

/** The service as `npm start` runs it: the runtime as a tree of processes, and the gateway before it, on state that outlives both. */
export class Service {
  readonly dataDir = mkdtempSync(join(tmpdir(), "sallyport-faults-"));
  readonly #bindings: Record<string, string>;
  #runtime: Runtime | undefined;
  /** Has its code loaded, and waits to be told what to serve: so a restart takes half the time. */
  #spare: Runtime | undefined;
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
    const { dataDir } = this;
    const signal = AbortSignal.timeout(120_000);
    await Promise.all([buildWorker({ dir: this.#builtDir, dataDir }, signal), migrate(dataDir, signal)]);
    await this.start();
  }

  async start(): Promise<void> {
    const runtime = this.#spare ?? this.#fork();
    this.#runtime = runtime;
    const message = { dataDir: this.dataDir, builtDir: this.#builtDir, log: false, bindings: this.#bindings };
    const gateway = createGateway(Number(new URL(await runtime.serve(message, AbortSignal.timeout(120_000))).port));
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
    await this.#end((runtime) => runtime.kill());
  }

  /** Asks the runtime to end, as `npm start` does. */
  async stop(): Promise<void> {
    await this.#end((runtime) => runtime.stop());
  }

  /** @param keep leaves the state on disk */
  async destroy(keep = false): Promise<void> {
    await this.kill();
    const spare = this.#spare;
    this.#spare = undefined;
    await spare?.kill();
    if (!keep) rmSync(this.dataDir, { recursive: true, force: true });
  }

  get #builtDir(): string {
    return join(this.dataDir, "runtime");
  }

  async #end(how: (runtime: Runtime) => Promise<void>): Promise<void> {
    const runtime = this.#runtime;
    if (!runtime) return;
    this.#runtime = undefined;
    this.port = null;
    this.#gateway?.close();
    await how(runtime);
  }

  #fork(): Runtime {
    const runtime = new Runtime(this.#builtDir, "pipe");
    const [output, errors] = runtime.outputs;
    output?.resume();
    errors?.on("data", (bytes) => {
      this.said = (this.said + bytes).slice(-200_000);
    });
    return runtime;
  }
}
