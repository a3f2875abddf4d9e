/** The nodes that `npm start` runs on this machine: each has an agent, a CSI driver and its own volumes. */
import type { ChildProcess } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT } from "../agent/src/exit.ts";
import { loadNode } from "../agent/src/identity.ts";
import { LocalChild } from "./local-child.ts";
import { CSI_PLUGIN, LocalDriver } from "./local-driver.ts";
import type { Service } from "./seed.ts";

export interface ToAgent {
  /** The file of its configuration. */
  config: string;
  /** Absent when its node has joined already. */
  joinToken?: string;
}

interface AgentDirs {
  /** Configuration, logs and state of each agent. */
  agentsDir: string;
  /** Directory of each node's host volumes. */
  volumesDir: string;
  /** Directories below it may be registered as volumes. */
  sharedDir: string;
  /** Directory of all CSI volumes. */
  csiDir: string;
}

/** Nodes with the CSI plugin's controller: one may fail. The plugin's node service runs on all nodes. */
const CONTROLLERS = 2;
const READY_MS = 15_000;

/** Exit codes after which a restart would not help. */
const FOR_GOOD: Readonly<Record<number, string>> = {
  [EXIT.superseded]: "another agent has connected as its node",
  [EXIT.revoked]: "the service has removed it; the next npm start makes it a new node",
  [EXIT.version]: "the service does not speak its version",
};

export class LocalAgent {
  readonly name: string;
  readonly #dir: string;
  readonly #dirs: AgentDirs;
  readonly #csiRoles: readonly string[];
  readonly #driver: LocalDriver;
  readonly #child: LocalChild;

  /**
   * Its processes start at once and load their code in parallel with the service; `run` starts the agent's work.
   * @param number from 1 on
   */
  constructor(number: number, dirs: AgentDirs) {
    this.name = `local-${number}`;
    this.#dirs = dirs;
    this.#dir = join(dirs.agentsDir, this.name);
    this.#csiRoles = number <= CONTROLLERS ? ["controller", "node"] : ["node"];
    mkdirSync(this.#stateDir, { recursive: true, mode: 0o700 });
    this.#driver = new LocalDriver(this.name, this.#dir, dirs.csiDir);
    this.#child = new LocalChild({
      what: `local agent ${this.name}`,
      module: new URL(import.meta.resolve("./agent-child.ts")),
      log: join(this.#dir, "agent.log"),
    });
  }

  /** Runs the agent, and restarts it after a crash. */
  run(service: Service): void {
    this.#child.keep({
      begin: (child) => this.#begin(child, service),
      forGood: (code) => {
        if (code === EXIT.revoked) rmSync(this.#stateDir, { recursive: true, force: true });
        return FOR_GOOD[code ?? EXIT.failed];
      },
    });
  }

  /** Resolves with the node's id and status when it is ready, or after a time-out. */
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
    // The agent first: it may be in the middle of a call.
    await this.#child.stop();
    await this.#driver.stop();
  }

  async #begin(child: ChildProcess, service: Service): Promise<void> {
    const config = join(this.#dir, "agent.json");
    const { volumesDir, sharedDir } = this.#dirs;
    const content = {
      service: service.baseUrl,
      name: this.name,
      stateDir: this.#stateDir,
      hostVolumes: { volumesDir: resolve(volumesDir, this.name), registerRoots: [resolve(sharedDir)] },
      csi: {
        mountsDir: resolve(this.#dir, "mounts"),
        plugins: [{ id: CSI_PLUGIN, socket: this.#driver.socket, roles: this.#csiRoles }],
      },
    };
    writeFileSync(config, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
    const message: ToAgent = { config };
    if (!(await loadNode(this.#stateDir))) message.joinToken = await this.#joinToken(service);
    // An error here means that the process has ended, which is handled elsewhere.
    child.send(message, () => {});
  }

  async #joinToken({ baseUrl, token }: Service): Promise<string> {
    const answer = await call(`${baseUrl}/v1/agent/tokens`, token, this.#child.signal, {
      Name: this.name,
      TTL: "5m",
    });
    if (!answer.ok) throw new Error(`its join token was refused with ${answer.status}: ${await answer.text()}`);
    return ((await answer.json()) as { Token: string }).Token;
  }

  get #stateDir(): string {
    return resolve(this.#dir, "state");
  }
}

function call(url: string, token: string, signal: AbortSignal, body?: object): Promise<Response> {
  const init = body ? { method: "POST", body: JSON.stringify(body) } : {};
  return fetch(url, { ...init, headers: { Authorization: `Bearer ${token}` }, signal });
}
