import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type FromRuntime, migrate, QUIET_WRANGLER, type ToRuntime } from "../../scripts/runtime.ts";

export interface Answer {
  readonly status: number;
  readonly index: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  readonly body: any;
}

/** An answer that takes longer is as good as none. */
const PATIENCE_MS = 30_000;

/** The whole runtime as a tree of processes on state that outlives it. */
export class Service {
  readonly dataDir = mkdtempSync(join(tmpdir(), "sallyport-events-"));
  readonly #settings: Record<string, string>;
  readonly #logs: boolean;
  #child: ChildProcess | undefined;
  /** Empty while there is no process. */
  base = "";
  /** Requests that got no answer although nobody killed the process that owed it. */
  readonly hung: string[] = [];
  /** What it has printed, if it is to be kept. */
  log = "";

  constructor(settings: Record<string, string>, { logs = false } = {}) {
    this.#settings = settings;
    this.#logs = logs;
  }

  async create(): Promise<void> {
    await migrate(this.dataDir, AbortSignal.timeout(60_000));
    await this.start();
  }

  async start(): Promise<void> {
    const output = this.#logs ? "pipe" : "ignore";
    this.#child = fork(new URL("../../scripts/runtime-child.ts", import.meta.url), [], {
      detached: true,
      stdio: ["ignore", output, output, "ipc"],
      execArgv: [],
      env: { ...process.env, ...QUIET_WRANGLER },
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (text) => {
        this.log += text;
      });
    const bindings = {
      MASTER_KEY: Buffer.from("stream-tests-use-this-master-ky!").toString("base64"),
      DEV_ROOT_TOKEN: "root",
      ...this.#settings,
    };
    this.#child.send({ dataDir: this.dataDir, log: this.#logs, bindings } satisfies ToRuntime);
    const answer: FromRuntime = (await once(this.#child, "message"))[0];
    if ("failure" in answer) throw new Error(answer.failure);
    this.base = answer.url;
  }

  /** SIGKILL to every process of the runtime at once: nobody gets to say goodbye. */
  async kill(): Promise<void> {
    await this.#end((child) => process.kill(-Number(child.pid), "SIGKILL"));
  }

  /** Asks the runtime to end, as `npm start` does. */
  async stop(): Promise<void> {
    await this.#end((child) => child.disconnect());
  }

  async destroy(): Promise<void> {
    await this.kill();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  async #end(how: (child: ChildProcess) => void): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#child = undefined;
    this.base = "";
    const exited = once(child, "exit");
    how(child);
    await exited;
  }

  /** Null when there was no answer. */
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
