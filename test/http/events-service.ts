import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Runtime, V8_FLAGS } from "../../scripts/runtime.ts";
import { prepareService } from "./prepared-service.ts";

export interface Answer {
  readonly status: number;
  readonly index: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  readonly body: any;
}

/** A slower answer counts as none. */
const PATIENCE_MS = 30_000;

/** The whole runtime as a tree of processes on persistent state. */
export class Service {
  readonly dataDir = mkdtempSync(join(tmpdir(), "sallyport-events-"));
  readonly #settings: Record<string, string>;
  readonly #logs: boolean;
  readonly #v8Flags: string;
  #runtime: Runtime | undefined;
  /** Empty without a process. */
  base = "";
  /** Requests without an answer whose process was not killed. */
  readonly hung: string[] = [];
  /** The output of the service, if it is recorded. */
  log = "";

  constructor(settings: Record<string, string>, { logs = false, v8Flags = V8_FLAGS } = {}) {
    this.#settings = settings;
    this.#logs = logs;
    this.#v8Flags = v8Flags;
  }

  async create(): Promise<void> {
    await prepareService(this.#builtDir, this.dataDir);
    await this.start();
  }

  async start(): Promise<void> {
    const runtime = new Runtime(this.#builtDir, this.#logs ? "pipe" : "ignore", undefined, this.#v8Flags);
    this.#runtime = runtime;
    for (const stream of runtime.outputs)
      stream.on("data", (text) => {
        this.log += text;
      });
    const bindings = {
      MASTER_KEY: Buffer.from("stream-tests-use-this-master-ky!").toString("base64"),
      DEV_ROOT_TOKEN: "root",
      ...this.#settings,
    };
    const message = { dataDir: this.dataDir, builtDir: this.#builtDir, log: this.#logs, bindings };
    this.base = await runtime.serve(message, AbortSignal.timeout(120_000));
  }

  /** Sends SIGKILL to every process of the runtime at once, so that none shuts down cleanly. */
  async kill(): Promise<void> {
    await this.#end((runtime) => runtime.kill());
  }

  /** Stops the runtime as `npm start` does. */
  async stop(): Promise<void> {
    await this.#end((runtime) => runtime.stop());
  }

  async destroy(): Promise<void> {
    await this.kill();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  get #builtDir(): string {
    return join(this.dataDir, "runtime");
  }

  async #end(how: (runtime: Runtime) => Promise<void>): Promise<void> {
    const runtime = this.#runtime;
    if (!runtime) return;
    this.#runtime = undefined;
    this.base = "";
    await how(runtime);
  }

  /** Null without an answer. */
  async call(method: string, path: string, body?: unknown, token = "root"): Promise<Answer | null> {
    const { base } = this;
    if (base === "") {
      await sleep(50);
      return null;
    }
    try {
      const answer = await fetch(base + path, {
        method,
        headers: { "X-Orch-Token": token },
        signal: AbortSignal.timeout(PATIENCE_MS),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      const parsed = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text;
      return { status: answer.status, index: Number(answer.headers.get("X-Orch-Index")), body: parsed };
    } catch {
      if (this.base === base) await sleep(500);
      if (this.base === base) this.hung.push(`${method} ${path}`);
      return null;
    }
  }

  async must(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await this.call(method, path, body);
    if (answer?.status !== 200 && answer?.status !== 204)
      throw new Error(`${method} ${path}: ${answer?.status} ${JSON.stringify(answer?.body)}`);
    return answer;
  }
}
