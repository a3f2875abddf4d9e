/** The node agents that `npm start` runs on this machine: each a child process, with a node and volumes of its own. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { EXIT } from "../agent/src/exit.ts";
import { loadNode } from "../agent/src/identity.ts";
import type { Service } from "./seed.ts";

export interface ToAgent {
  /** The file of its configuration. */
  config: string;
  /** Absent when its node has joined already. */
  joinToken?: string;
}

export interface AgentDirs {
  /** Holds what each agent keeps: configuration, log, and the state that makes it its node. */
  agentsDir: string;
  /** Holds the volumes of each. */
  volumesDir: string;
  /** What lies below it may be registered as a volume. */
  sharedDir: string;
}

const READY_MS = 15_000;
const STOP_MS = 5_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** Who has lived this long had a good start. */
const STEADY_MS = 60_000;

/** Starting again would not help. */
const FOR_GOOD: Readonly<Record<number, string>> = {
  [EXIT.superseded]: "another agent has connected as its node",
  [EXIT.revoked]: "the service has removed it; the next npm start makes it a new node",
  [EXIT.version]: "the service does not speak its version",
};

export class LocalAgent {
  readonly name: string;
  readonly #dir: string;
  readonly #dirs: AgentDirs;
  #child: ChildProcess;
  readonly #stopping = new AbortController();
  #living: Promise<void> = Promise.resolve();

  /** The process starts at once, and loads its code while the service does; it is given what to do by `run`. */
  constructor(name: string, dirs: AgentDirs) {
    this.name = name;
    this.#dirs = dirs;
    this.#dir = join(dirs.agentsDir, name);
    mkdirSync(this.#stateDir, { recursive: true, mode: 0o700 });
    this.#child = this.#spawn("w");
  }

  /** Has it serve its node, and starts it again whenever it dies. */
  run(service: Service): void {
    this.#living = this.#live(service);
  }

  /** Answers the node's id and status, as soon as it is ready or it is clear that this takes too long. */
  async node({ baseUrl, token }: Service, signal: AbortSignal): Promise<string> {
    const deadline = performance.now() + READY_MS;
    for (;;) {
      const node = await loadNode(this.#stateDir);
      const answer = node && (await call(`${baseUrl}/v1/node/${node.nodeId}`, token, signal));
      const status = answer?.ok ? ((await answer.json()) as { Status: string }).Status : "not joined";
      if (status === "ready" || performance.now() > deadline)
        return `${node?.nodeId ?? "none"} (${this.name}, ${status})`;
      await sleep(50, undefined, { signal });
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const { pid } = this.#child;
    if (this.#child.connected) this.#child.disconnect();
    await Promise.race([this.#living, sleep(STOP_MS)]);
    try {
      process.kill(-Number(pid), "SIGKILL");
    } catch {
      // Nobody is left in the group, as it should be.
    }
  }

  async #live(service: Service): Promise<void> {
    const { signal } = this.#stopping;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      const began = performance.now();
      const exited = once(this.#child, "exit");
      await this.#begin(service).catch((failure) => {
        if (!signal.aborted) this.#say(`cannot be started: ${failure instanceof Error ? failure.message : failure}.`);
        this.#child.kill();
      });
      const [code, killedBy] = (await exited) as [number | null, string | null];
      if (signal.aborted) return;
      const forGood = FOR_GOOD[code ?? EXIT.failed];
      if (code === EXIT.revoked) rmSync(this.#stateDir, { recursive: true, force: true });
      if (forGood) return this.#say(`has ended: ${forGood}.`);
      this.#say(`has ended (${killedBy ?? code}) and is started again; ${this.#log} may say why.`);
      if (performance.now() - began > STEADY_MS) pause = FIRST_PAUSE_MS;
      await sleep(pause, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      this.#child = this.#spawn("a");
    }
  }

  async #begin(service: Service): Promise<void> {
    const config = join(this.#dir, "agent.json");
    const { volumesDir, sharedDir } = this.#dirs;
    const content = {
      service: service.baseUrl,
      name: this.name,
      stateDir: this.#stateDir,
      hostVolumes: { volumesDir: resolve(volumesDir, this.name), registerRoots: [resolve(sharedDir)] },
    };
    writeFileSync(config, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
    const message: ToAgent = { config };
    if (!(await loadNode(this.#stateDir))) message.joinToken = await this.#joinToken(service);
    // An error here means that the process is gone, and that is awaited elsewhere.
    this.#child.send(message, () => {});
  }

  async #joinToken({ baseUrl, token }: Service): Promise<string> {
    const answer = await call(`${baseUrl}/v1/agent/tokens`, token, this.#stopping.signal, {
      Name: this.name,
      TTL: "5m",
    });
    if (!answer.ok) throw new Error(`its join token was refused with ${answer.status}: ${await answer.text()}`);
    return ((await answer.json()) as { Token: string }).Token;
  }

  get #stateDir(): string {
    return resolve(this.#dir, "state");
  }

  get #log(): string {
    return join(this.#dir, "agent.log");
  }

  /** @param flag `w` empties the log first */
  #spawn(flag: "w" | "a"): ChildProcess {
    const log = openSync(this.#log, flag, 0o600);
    try {
      return fork(fileURLToPath(import.meta.resolve("./agent-child.ts")), [], {
        // A group of its own: Ctrl-C reaches only the process that stops the others in order.
        detached: true,
        stdio: ["ignore", log, log, "ipc"],
      });
    } finally {
      closeSync(log);
    }
  }

  #say(what: string): void {
    console.warn(`The local agent ${this.name} ${what}`);
  }
}

function call(url: string, token: string, signal: AbortSignal, body?: object): Promise<Response> {
  const init = body ? { method: "POST", body: JSON.stringify(body) } : {};
  return fetch(url, { ...init, headers: { Authorization: `Bearer ${token}` }, signal });
}
