/** `npm run serve` as its unit runs it: one process tree, settings in its environment, persistent state. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { FIRST, SECOND } from "./certificates.ts";

const READY_MS = 120_000;
const CA = [FIRST.cert, SECOND.cert];

export interface Answer {
  readonly status: number;
  readonly text: string;
}

export class Served {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #mark = randomUUID();
  readonly #agent = new Agent({ keepAlive: true, ca: CA });
  readonly exit: Promise<number | null>;
  output = "";
  errors = "";

  constructor(port: number, settings: Record<string, string>) {
    this.port = port;
    const { PATH = "", TMPDIR = "/tmp", NODE_COMPILE_CACHE = "" } = process.env;
    this.#child = spawn(process.execPath, ["scripts/serve.ts"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH, TMPDIR, NODE_COMPILE_CACHE, PORT: String(port), SERVED_MARK: this.#mark, ...settings },
    });
    this.#child.stdout?.on("data", (bytes) => (this.output += bytes));
    this.#child.stderr?.on("data", (bytes) => (this.errors += bytes));
    this.exit = once(this.#child, "close").then(([code]) => code as number | null);
  }

  /** The complete lines of its log. */
  get lines(): Record<string, unknown>[] {
    return this.output
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  }

  events(name: string): Record<string, unknown>[] {
    return this.lines.filter(({ event }) => event === name);
  }

  async ready(): Promise<this> {
    for (const end = Date.now() + READY_MS; this.events("ready").length === 0; await sleep(20))
      if (this.#child.exitCode !== null || Date.now() > end)
        throw new Error(`it is not ready:\n${this.output}${this.errors}`);
    return this;
  }

  async call(method: string, path: string, token = "", body?: unknown, headers = {}): Promise<Answer> {
    const sent = request({
      method,
      path,
      host: "127.0.0.1",
      port: this.port,
      agent: this.#agent,
      headers: { ...(token && { "X-Orch-Token": token }), "Content-Type": "application/json", ...headers },
    });
    sent.end(body === undefined ? undefined : body instanceof Buffer ? body : JSON.stringify(body));
    const [answer] = await once(sent, "response");
    let text = "";
    for await (const piece of answer.setEncoding("utf8")) text += piece;
    return { status: answer.statusCode, text };
  }

  async json(method: string, path: string, token?: string, body?: unknown) {
    const { status, text } = await this.call(method, path, token, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return text === "" ? {} : JSON.parse(text);
  }

  async bootstrap(secret: string): Promise<string> {
    return (await this.json("PUT", "/v1/acl/bootstrap", "", { BootstrapSecret: secret })).SecretID;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Kills processes of its tree: all, or those whose command line contains `part`. @returns their number */
  kill(part = ""): number {
    const found = this.#processes(part);
    for (const { pid } of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The process has exited meanwhile.
      }
    }
    return found.length;
  }

  /** Waits until its tree has no process. */
  async gone(): Promise<void> {
    this.#agent.destroy();
    for (const end = Date.now() + READY_MS; this.#processes().length > 0; await sleep(20))
      if (Date.now() > end) throw new Error("processes of it remain");
  }

  #processes(part = ""): { pid: number }[] {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => {
        try {
          if (!readFileSync(join("/proc", name, "environ"), "utf8").includes(this.#mark)) return [];
          return readFileSync(join("/proc", name, "cmdline"), "utf8").includes(part) ? [{ pid: Number(name) }] : [];
        } catch {
          return [];
        }
      });
  }
}
