import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, vi } from "vitest";
import { type AgentProcess, nodeDirectory, startAgent, writePlugin } from "./agent-service.ts";
import { Service } from "./events-service.ts";
import { alive } from "./process-alive.ts";

/* The service as a process that can be killed, a line to it that can be disturbed, and nodes with the agent as it is. */

/** Long enough for a busy machine; these tests do not measure speed. */
export const PATIENT = { timeout: 90_000, interval: 100 };

interface Connection {
  readonly agent: Socket;
  readonly service: Socket;
  /** Both ends stay open, and receive no more bytes. */
  silent: boolean;
  /** Frames of the agent are lost; frames of the service arrive. */
  deaf: boolean;
}

/** The network between agents and the service: a fixed address for a service whose port changes with restarts. */
export class Line {
  readonly #connections = new Set<Connection>();
  readonly #target: () => string;
  readonly #server: Server;
  url = "";

  constructor(target: () => string) {
    this.#target = target;
    this.#server = createServer((socket) => void this.#carry(socket));
  }

  async open(): Promise<this> {
    this.#server.listen(0, "127.0.0.1");
    await vi.waitFor(() => expect(this.#server.listening).toBe(true));
    this.url = `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
    return this;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  async #carry(agent: Socket): Promise<void> {
    agent.on("error", () => undefined);
    agent.pause();
    // Connections wait for a stopped service, so that no test waits for an agent's back-off.
    for (let tries = 0; this.#target() === "" && tries < 600; tries++) await sleep(50);
    if (this.#target() === "" || agent.destroyed) return void agent.destroy();
    const { hostname, port } = new URL(this.#target());
    const service = dial(Number(port), hostname);
    const connection: Connection = { agent, service, silent: false, deaf: false };
    this.#connections.add(connection);
    const end = () => {
      if (connection.silent) return;
      this.#connections.delete(connection);
      agent.destroy();
      service.destroy();
    };
    for (const socket of [agent, service]) socket.on("error", () => undefined).on("close", end);
    agent.on("data", (bytes) => connection.silent || connection.deaf || service.write(bytes));
    service.on("data", (bytes) => connection.silent || agent.write(bytes));
    agent.resume();
  }

  /** Open connections stay open but carry no more bytes; new connections work. */
  silence(): void {
    for (const connection of this.#connections) connection.silent = true;
  }

  /** Drops the agents' frames on open connections from now on. */
  deafen(): void {
    for (const connection of this.#connections) connection.deaf = true;
  }

  cut(): void {
    for (const connection of this.#connections) {
      connection.silent = false;
      connection.agent.destroy();
      connection.service.destroy();
    }
  }
}

/**
 * Records its steps in the file `runs`. With the file `stop-<operation>-<n>` in the node's directory it hangs at its nth
 * step. Its state is in files, so that it can be read after all processes were killed.
 */
const STEPPING = (at: (name: string) => string) => `PATH=/usr/bin:/bin
step() { echo "$DHV_OPERATION $1" >> ${at("steps")}; while [ -e ${at("stop-")}"$DHV_OPERATION-$1" ]; do sleep 0.05; done; }
echo $$ >> ${at("pids")}
volume="$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"
case "$1" in
fingerprint) echo '{"version": "1.0.0"}' ;;
create)
  step 1
  if mkdir "$volume" 2>/dev/null; then echo "made $DHV_VOLUME_ID" >> ${at("runs")}; fi
  step 2
  printf '{"path": "%s", "bytes": 4096}' "$volume" ;;
delete)
  step 1
  if rm -r "$volume" 2>/dev/null; then echo "removed $DHV_VOLUME_ID" >> ${at("runs")}; fi
  step 2 ;;
esac`;

export interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  readonly body: any;
}

export class Cluster {
  service: Service;
  readonly #settings: Record<string, string>;
  readonly line = new Line(() => this.service.base);

  /** @param settings of the service (docs/reference/settings.md) */
  constructor(settings: Record<string, string> = {}, options: { logs?: boolean } = {}) {
    this.#settings = settings;
    this.service = new Service(settings, options);
  }

  async start(): Promise<void> {
    await this.line.open();
    await this.service.create();
  }

  async destroy(): Promise<void> {
    this.line.close();
    await this.service.destroy();
  }

  /** One request to the running service. @throws without an answer */
  async call(method: string, path: string, body?: unknown): Promise<Answer> {
    const init = { method, headers: { "X-Orch-Token": "root" }, ...(body ? { body: JSON.stringify(body) } : {}) };
    const response = await fetch(`${this.service.base}${path}`, init);
    const text = await response.text();
    return { status: response.status, text, body: /^[{[]/.test(text) ? JSON.parse(text) : null };
  }

  /** Repeats a request until its status is one of these. */
  async insist(method: string, path: string, body: unknown, statuses: readonly number[]): Promise<Answer> {
    let last = "nothing";
    for (const until = Date.now() + 150_000; Date.now() < until; await sleep(100)) {
      const answer = this.service.base && (await this.call(method, path, body).catch(() => null));
      if (answer) last = `${answer.status} ${answer.text}`;
      if (answer && statuses.includes(answer.status)) return answer;
    }
    throw new Error(`${method} ${path} ${JSON.stringify(body)}: ${last}`);
  }

  create = (volume: object, token = "") => this.call("PUT", "/v1/volume/host/create", creation(volume, token));

  list = async (query: string): Promise<Answer["body"]> =>
    (await this.call("GET", `/v1/volumes?type=host${query}`)).body;

  /** Kills the service's processes, and restarts the service on the remaining state. */
  async restartService(): Promise<void> {
    await this.service.kill();
    await this.service.start();
  }

  /** Starts an empty service at the old address. */
  async replaceService(): Promise<void> {
    await this.service.destroy();
    this.service = new Service(this.#settings);
    await this.service.create();
  }

  async waitForState(id: string, state: string): Promise<void> {
    await vi.waitFor(async () => {
      const read = await this.call("GET", `/v1/volume/host/${id}`);
      expect(read.body?.State, read.text).toBe(state);
    }, PATIENT);
  }

  /** The service, the nodes' disks and their plugins' counts agree on these volumes, each created once. */
  async expectExactly(pool: string, nodes: readonly Node[], ids: readonly string[]): Promise<void> {
    const listed = await this.list(`&node_pool=${pool}`);
    expect(listed.map(({ ID }: { ID: string }) => ID).sort()).toEqual([...ids].sort());
    for (const node of nodes) {
      const here = listed
        .filter(({ NodeID }: { NodeID: string }) => NodeID === node.id)
        .map(({ ID }: { ID: string }) => ID);
      expect(node.volumes(), node.name).toEqual(here.sort());
      const runs = node.runs();
      expect(new Set(runs).size, "made once, and removed once").toBe(runs.length);
    }
  }

  /** A node in a pool, with a running agent and the plugin `stepping`. @param odd the script of another plugin */
  async node(pool: string, name = "n1", odd: (at: Node["at"]) => string = () => ""): Promise<Node> {
    const made = await this.call("POST", "/v1/agent/tokens", { NodePool: pool });
    const node = new Node(this, pool, name, odd);
    node.startWith(made.body.Token);
    await node.isReady();
    return node;
  }
}

/** `token` makes repeated requests one request. */
export const creation = (volume: object, token = "") => ({
  Volume: { Name: "db", PluginID: "stepping", ...volume },
  ...(token && { IdempotencyToken: token }),
});

export class Node {
  readonly #cluster: Cluster;
  readonly #path: string;
  readonly pool: string;
  readonly name: string;
  readonly at: (name: string) => string;
  id = "";
  agent!: AgentProcess;

  constructor(cluster: Cluster, pool: string, name: string, odd: (at: Node["at"]) => string) {
    const directory = nodeDirectory(cluster.line.url, { pool, name });
    const { config, at, path } = directory;
    const hostVolumes = { ...config.hostVolumes, plugins: [{ name: "stepping" }, { name: "odd" }] };
    writeFileSync(path, JSON.stringify({ ...config, hostVolumes }));
    writePlugin(at("plugins"), "stepping", STEPPING(at));
    const fingerprint = `[ "$1" = fingerprint ] && { echo '{"version":"1.0.0"}'; exit 0; }`;
    writePlugin(
      at("plugins"),
      "odd",
      `${fingerprint}\necho $$ >> ${at("pids")}\n[ "$1" = delete ] && exit 0\n${odd(at)}`,
    );
    [this.#cluster, this.#path, this.pool, this.name, this.at] = [cluster, path, pool, name, at];
  }

  startWith(joinToken: string): void {
    this.agent = startAgent(this.#path, { SALLYPORT_JOIN_TOKEN: joinToken });
  }

  /** @param env for instance a preloaded module that shifts the clock */
  start(env: Record<string, string> = {}): void {
    this.agent = startAgent(this.#path, env);
  }

  /** Kills the agent and its plugins, as its unit does (agent/sallyport-agent.service). */
  async kill(): Promise<void> {
    await this.agent.kill();
    for (const pid of this.#lines("pids").map(Number)) {
      try {
        // A child of the plugin may outlive it; its PID may belong to another process by now.
        const own = !alive(pid) || readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(this.at("plugins"));
        if (own) process.kill(-pid, "SIGKILL");
      } catch {
        // The process has exited.
      }
    }
    rmSync(this.at("pids"), { force: true });
  }

  async restart(): Promise<void> {
    await this.kill();
    this.start();
  }

  async isReady(status = "ready"): Promise<void> {
    const filter = encodeURIComponent(`NodePool == "${this.pool}" and Name == "${this.name}"`);
    await vi.waitFor(async () => {
      const nodes = (await this.#cluster.call("GET", `/v1/nodes?filter=${filter}`)).body;
      const node = this.id ? nodes.find(({ ID }: { ID: string }) => ID === this.id) : nodes[0];
      expect(node?.Status, this.agent.log).toBe(status);
      this.id = node.ID;
    }, PATIENT);
  }

  #lines = (file: string): string[] =>
    existsSync(this.at(file)) ? readFileSync(this.at(file), "utf8").split("\n").slice(0, -1) : [];

  /** The plugin's counts of creations and deletions. */
  runs = () => this.#lines("runs");

  /** Directories of volumes on the disk. */
  volumes = (): string[] =>
    existsSync(this.at("volumes"))
      ? readdirSync(this.at("volumes"))
          .filter((name) => /^[0-9a-f-]{36}$/.test(name))
          .sort()
      : [];

  pathOf = (id: string) => join(this.at("volumes"), id);

  /** The plugin waits at this step until `letGo`. */
  stopAt = (step: string) => writeFileSync(this.at(`stop-${step.replace(" ", "-")}`), "");

  letGo = (step: string) => rmSync(this.at(`stop-${step.replace(" ", "-")}`));

  reached = (step: string, times = 1) =>
    vi.waitFor(() => {
      const reached = this.#lines("steps").filter((line) => line === step).length;
      expect(reached, `${step}: ${this.agent.log}`).toBeGreaterThanOrEqual(times);
    }, PATIENT);
}
