import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ToAgent } from "../../scripts/agents.ts";
import type { Mortal } from "./chaos.ts";
import type { Client } from "./client.ts";

/** A process as `npm start` runs it beside the service, which ends when we do; it may be killed and started again. */
class Process implements Mortal {
  readonly name: string;
  /** Exits of the agent that no test caused. */
  readonly wrong: string[] = [];
  readonly #module: string;
  readonly #env: Record<string, string>;
  readonly #message: () => ToAgent | null;
  #child: ChildProcess | undefined;
  #said = "";

  /** @param message its start message */
  constructor(name: string, module: string, env: Record<string, string>, message: () => ToAgent | null) {
    this.name = name;
    this.#module = module;
    this.#env = env;
    this.#message = message;
  }

  async start(): Promise<void> {
    const child = fork(new URL(`../../scripts/${this.#module}`, import.meta.url), [], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      execArgv: [],
      env: { ...process.env, ...this.#env },
    });
    this.#child = child;
    child.stderr?.on("data", (bytes) => {
      this.#said = (this.#said + bytes).slice(-4_000);
    });
    child.on("exit", (code) => {
      if (this.#child === child)
        this.wrong.push(`${this.name} ended by itself with ${code}: ${this.#said.slice(-1_000)}`);
    });
    const message = this.#message();
    if (message) child.send(message, () => undefined);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
}

/** A node: an agent that makes directories, and a CSI driver beside it. All drivers share their volumes. */
export class Node {
  readonly name: string;
  readonly agent: Process;
  readonly driver: Process;
  readonly #dir: string;
  #joinToken = "";

  /** @param service where the agent finds it */
  constructor(root: string, name: string, service: string) {
    this.name = name;
    this.#dir = join(root, name);
    mkdirSync(this.#dir, { mode: 0o700 });
    const socket = join(this.#dir, "csi.sock");
    const config = join(this.#dir, "agent.json");
    const content = {
      service,
      name,
      stateDir: join(this.#dir, "state"),
      hostVolumes: { volumesDir: join(this.#dir, "volumes"), pluginDir: this.#dir },
      csi: { mountsDir: join(this.#dir, "mounts"), plugins: [{ id: "dir", socket }] },
    };
    writeFileSync(config, JSON.stringify(content), { mode: 0o600 });
    const env = { CSI_ENDPOINT: `unix://${socket}`, CSI_DIR_ROOT: join(root, "csi"), CSI_DIR_NODE_ID: name };
    this.driver = new Process("csi driver", "csi-child.ts", env, () => null);
    this.agent = new Process("agent", "agent-child.ts", {}, () => ({ config, joinToken: this.#joinToken }));
  }

  async join(client: Client): Promise<void> {
    this.#joinToken = (await client.must("POST", "/v1/agent/tokens", {})).body.Token;
    await Promise.all([this.driver.start(), this.agent.start()]);
  }

  /** Ids of the volumes that are on its disk. */
  get volumes(): string[] {
    return directories(join(this.#dir, "volumes")).filter((name) => /^[0-9a-f-]{36}$/.test(name));
  }
}

const directories = (path: string): string[] => (existsSync(path) ? readdirSync(path).sort() : []);

export class Nodes {
  readonly #root = mkdtempSync(join(tmpdir(), "faults-"));
  readonly #client: Client;
  readonly all: readonly Node[];

  constructor(client: Client, count: number, service: string) {
    this.#client = client;
    this.all = Array.from({ length: count }, (_, number) => new Node(this.#root, `node-${number + 1}`, service));
  }

  get processes(): readonly Mortal[] {
    return this.all.flatMap(({ agent, driver }) => [agent, agent, driver]);
  }

  get wrong(): string[] {
    return this.all.flatMap(({ agent, driver }) => [...agent.wrong, ...driver.wrong]);
  }

  /** The volumes in the drivers' records, and the paths where each is published. */
  get csiVolumes(): { id: string; name: string; published: string[] }[] {
    const volumes = join(this.#root, "csi", "volumes");
    return directories(volumes).flatMap((id) => {
      try {
        const { name, published } = JSON.parse(readFileSync(join(volumes, id, "record.json"), "utf8"));
        return [{ id, name, published: Object.keys(published) }];
      } catch {
        // It is just going.
        return [];
      }
    });
  }

  async begin(): Promise<void> {
    await Promise.all(this.all.map((node) => node.join(this.#client)));
    for (const until = Date.now() + 90_000; (await this.unready()).length > 0; await sleep(200))
      if (Date.now() > until) throw new Error(`not ready: ${await this.unready()} ${this.wrong}`);
  }

  /** Nodes and plugins that are not ready. */
  async unready(): Promise<string[]> {
    const nodes: { Name: string; Status: string }[] = (await this.#client.call("GET", "/v1/nodes"))?.body ?? [];
    const plugin = (await this.#client.call("GET", "/v1/plugin/csi/dir"))?.body;
    return [
      ...this.all
        .filter(({ name }) => !nodes.some(({ Name, Status }) => Name === name && Status === "ready"))
        .map(({ name }) => `${name} is not ready`),
      ...(plugin?.ControllersHealthy === this.all.length
        ? []
        : [`${plugin?.ControllersHealthy} of ${this.all.length} CSI controllers are healthy`]),
    ];
  }

  async end(keep: boolean): Promise<void> {
    await Promise.all(this.all.flatMap(({ agent, driver }) => [agent.kill(), driver.kill()]));
    if (!keep) rmSync(this.#root, { recursive: true, force: true });
  }
}
