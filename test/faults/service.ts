import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { GatewayProcess } from "../../scripts/gateway-process.ts";
import type { Rhythm } from "../../scripts/heartbeat.ts";
import { buildWorker, Runtime } from "../../scripts/runtime.ts";
import { freePort } from "../smoke/local-service.ts";
import type { Rollout } from "./rollout.ts";

/** Processes that die alone: the front of the runtime, its back, and the gateway. */
export const PARTS = ["runtime-child", "workerd", "gateway"] as const;
export type Part = (typeof PARTS)[number];

/** As `npm start` asks, at a pace at which many deaths fit a run. */
const RHYTHM: Rhythm = { everyMs: 200, answerMs: 1_500, misses: 3 };
/** Time in which the death of a part is noticed and mended. */
const NOTICED_MS = 60_000;

/** The service as `npm start` runs it: the runtime as a tree of processes, and the gateway before it, on state that outlives both. */
export class Service {
  readonly dataDir = mkdtempSync(join(tmpdir(), "sallyport-faults-"));
  readonly #bindings: Record<string, string>;
  readonly #rollout: Rollout | null;
  #runtime: Runtime | undefined;
  /** Loads its code in advance and waits for its arguments, which halves the time of a restart. */
  #spare: Runtime | undefined;
  #gateway: GatewayProcess | undefined;
  #gatewayPort = 0;
  #runtimePort = 0;
  /** Of the gateway; null while there is no runtime. */
  port: number | null = null;
  /** How often the runtime has been started. */
  starts = 0;
  /** When it was there last time (ms since 1970). */
  startedAt = 0;
  /** The latest error output of the runtime. */
  said = "";
  /** Deaths of a process that were not detected. */
  readonly wrong: string[] = [];

  /** @param rollout another version of the code that serves, too */
  constructor(bindings: Record<string, string>, rollout: Rollout | null = null) {
    this.#bindings = bindings;
    this.#rollout = rollout;
  }

  async create(): Promise<void> {
    const { dataDir } = this;
    await buildWorker({ dir: this.#builtDir, dataDir, migrations: true }, AbortSignal.timeout(120_000));
    await this.#rollout?.build(dataDir);
    this.#gatewayPort = await freePort();
    this.#gateway = new GatewayProcess("127.0.0.1", this.#gatewayPort, RHYTHM);
    await this.#gateway.listen();
    await this.start();
  }

  async start(): Promise<void> {
    const runtime = this.#spare ?? this.#fork();
    this.#runtime = runtime;
    const own = { dataDir: this.dataDir, builtDir: this.#builtDir, log: false, bindings: this.#bindings };
    const message = this.#rollout ? { ...own, former: this.#rollout.next() } : own;
    const url = await runtime.serve(message, AbortSignal.timeout(120_000));
    this.#runtimePort = Number(new URL(url).port);
    if (this.#gateway) this.#gateway.upstreamPort = this.#runtimePort;
    this.port = this.#gatewayPort;
    this.starts++;
    this.startedAt = Date.now();
    this.#spare = this.#fork();
  }

  /** Sends SIGKILL to every process of the runtime at once, so that none shuts down cleanly. */
  async kill(): Promise<void> {
    await this.#end((runtime) => runtime.kill());
  }

  /** Asks the runtime to end, as `npm start` does. */
  async stop(): Promise<void> {
    await this.#end((runtime) => runtime.stop());
  }

  /** Kills or freezes one process, and replaces its group as the supervisor of `npm start` does. */
  async lose(part: Part, signal: "SIGKILL" | "SIGSTOP"): Promise<void> {
    if (part === "gateway") return this.#loseGateway(signal);
    const runtime = this.#runtime;
    if (!runtime) return;
    const dead = part === "workerd" ? childOf(runtime.pid) : runtime.pid;
    process.kill(dead, signal);
    const over = new AbortController();
    const noticed = await Promise.race([
      runtime.failed(over.signal, RHYTHM),
      ...(part === "workerd" ? [this.#cameBack(runtime, dead, over.signal)] : []),
      sleep(NOTICED_MS, "never"),
    ]);
    over.abort();
    this.startedAt = Date.now();
    if (noticed === "never") this.wrong.push(`nobody noticed ${signal} to ${part}`);
    if (noticed === "back") return;
    await this.kill();
    await this.start();
  }

  /** The front brings a back that ended up again, at the same port. */
  async #cameBack(runtime: Runtime, dead: number, signal: AbortSignal): Promise<"back"> {
    while (!signal.aborted) {
      if (![0, dead].includes(childOf(runtime.pid)) && (await accepts(this.#runtimePort))) return "back";
      await sleep(50);
    }
    return new Promise(() => undefined);
  }

  async #loseGateway(signal: "SIGKILL" | "SIGSTOP"): Promise<void> {
    const gateway = this.#gateway;
    if (!gateway) return;
    const dead = gateway.pid;
    this.port = null;
    process.kill(dead, signal);
    const until = Date.now() + NOTICED_MS;
    while (gateway.pid === dead || !(await accepts(this.#gatewayPort))) {
      if (Date.now() > until) return void this.wrong.push(`the gateway did not come back after ${signal}`);
      await sleep(20);
    }
    this.startedAt = Date.now();
    this.port = this.#gatewayPort;
  }

  /** @param keep leaves the state on disk */
  async destroy(keep = false): Promise<void> {
    await this.kill();
    await this.#gateway?.stop();
    const spare = this.#spare;
    this.#spare = undefined;
    await spare?.kill();
    await this.#rollout?.end();
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
    if (this.#gateway) this.#gateway.upstreamPort = null;
    await how(runtime);
  }

  #fork(): Runtime {
    const runtime = new Runtime(this.#builtDir, "pipe", this.#rollout?.script);
    const [output, errors] = runtime.outputs;
    output?.resume();
    errors?.on("data", (bytes) => {
      this.said = (this.said + bytes).slice(-200_000);
    });
    return runtime;
  }
}

/** Linux only, as all of this suite; 0 when there is none. */
function childOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0]);
  } catch {
    return 0;
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const end = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once("connect", () => end(true));
    socket.once("error", () => end(false));
  });
}
