import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { AgentProcess, nodeDirectory, startAgent } from "./agent-service.ts";
import { Driver, type Faults } from "./csi-process.ts";
import { Cluster, PATIENT, type Answer as Plain } from "./node-faults-world.ts";
import { programOf } from "./prepared-program.ts";

/* The whole chain as it is: the service, nodes with the agent, and beside each of these a csi-dir driver behind its socket. */

export interface Answer extends Plain {
  readonly index: number;
  readonly nextToken: string;
}

export class World extends Cluster {
  #made = 0;

  constructor() {
    super({}, { logs: true });
  }

  /** A request with additional headers. */
  async ask(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    const init = {
      method,
      headers: { "X-Orch-Token": "root", ...headers },
      ...(body && { body: JSON.stringify(body) }),
    };
    const response = await fetch(`${this.service.base}${path}`, init);
    const text = await response.text();
    const index = Number(response.headers.get("X-Orch-Index"));
    const nextToken = response.headers.get("X-Orch-NextToken") ?? "";
    return { status: response.status, text, body: /^[{[]/.test(text) ? JSON.parse(text) : null, index, nextToken };
  }

  /** A node with a plugin that no other test uses. @param env of its driver */
  async csiNode(plugin: string, { env = {}, faults, ...more }: NodeOptions = {}): Promise<CsiNode> {
    const node = new CsiNode(this, plugin, `csi-${++this.#made}`, env, more);
    if (faults) node.driver.misbehave(faults);
    await node.begin();
    return node;
  }

  /** The service's counts of a plugin's controllers and nodes. */
  async plugin(id: string): Promise<{ controllers: number; nodes: number } | null> {
    const { body } = await this.ask("GET", `/v1/plugin/csi/${id}`);
    return body && { controllers: body.ControllersHealthy, nodes: body.NodesHealthy };
  }

  make = (volume: object): Promise<Answer> => {
    const wanted = { ...definition, ...volume };
    return this.ask("PUT", `/v1/volume/csi/${wanted.ID}/create`, wanted);
  };

  /** @throws when the creation failed */
  async made(volume: object): Promise<Answer["body"]> {
    const { status, text, body } = await this.make(volume);
    if (status !== 200) throw new Error(`not made: ${status} ${text}`);
    return body.Volumes[0];
  }

  read = (id: string): Promise<Answer> => this.ask("GET", `/v1/volume/csi/${id}`);

  /** The provider's ids of a plugin's volumes. */
  async known(plugin: string): Promise<string[]> {
    const { body } = await this.ask(
      "GET",
      `/v1/volumes?type=csi&namespace=*&filter=${encodeURIComponent(`PluginID == "${plugin}"`)}`,
    );
    return body.map(({ ExternalID }: { ExternalID: string }) => ExternalID).sort();
  }

  /** The claims of a volume, oldest first. */
  claims = async (id: string): Promise<Claim[]> => (await this.ask("GET", `/v1/volume/csi/${id}/claims`)).body;

  /** Waits for claims of a volume in these states, oldest first. */
  claimed = (id: string, ...states: string[]): Promise<Claim[]> =>
    vi.waitFor(async () => {
      const claims = await this.claims(id);
      expect(
        claims.map(({ State }) => State),
        JSON.stringify(claims),
      ).toEqual(states);
      return claims;
    }, PATIENT);

  /** Sends a scheduler's report. */
  report = (...objects: object[]): Promise<Answer> => this.ask("PUT", "/v1/cluster/objects", objects);
}

export interface Claim {
  readonly AllocID: string;
  readonly NodeID: string;
  readonly State: string;
  readonly LastError: string;
  readonly Path: string;
  readonly ExpansionOwed: boolean;
}

export const definition = {
  ID: "v",
  Name: "v",
  PluginID: "disk",
  RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
};

/** A job whose group requests a volume. */
export const job = (id: string, volume: string, more: object = {}) => ({
  Topic: "Job",
  Type: "JobRegistered",
  Payload: {
    Job: {
      ID: id,
      TaskGroups: [{ Name: "main", Volumes: { data: { Type: "csi", Source: volume, ...MODES, ...more } } }],
    },
  },
});
const MODES = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };

/** An allocation of that job. */
export const allocation = (id: string, jobId: string, nodeId: string, status: string) => ({
  Topic: "Allocation",
  Type: "AllocationUpdated",
  Payload: {
    Allocation: {
      ID: id,
      Name: `${jobId}.main[0]`,
      JobID: jobId,
      TaskGroup: "main",
      NodeID: nodeId,
      ClientStatus: status,
    },
  },
});

export const allocationId = (number: number): string => `a110c000-0000-4000-8000-${String(number).padStart(12, "0")}`;

interface NodeOptions {
  readonly env?: Record<string, string>;
  /** The faults of its driver from the start. */
  readonly faults?: Faults;
  readonly roles?: readonly string[];
  /** The node whose driver's directory its own driver shares. */
  readonly beside?: CsiNode;
}

export class CsiNode {
  readonly #world: World;
  readonly #path: string;
  readonly plugin: string;
  readonly name: string;
  readonly driver: Driver;
  /** The state directory of its agent. */
  readonly root: string;
  readonly at: (name: string) => string;
  /** The log of all its processes. */
  readonly agents: AgentProcess[] = [];
  id = "";

  constructor(world: World, plugin: string, name: string, env: Record<string, string>, { roles, beside }: NodeOptions) {
    const shared = beside ? { CSI_DIR_ROOT: beside.driver.root } : undefined;
    this.driver = new Driver({ CSI_DIR_NODE_ID: name, ...shared, ...env });
    const directory = nodeDirectory(world.line.url, { name });
    const plugins = [{ id: plugin, socket: this.driver.socket, ...(roles && { roles }) }];
    const csi = { mountsDir: directory.at("mounts"), plugins };
    writeFileSync(directory.path, JSON.stringify({ ...directory.config, csi }));
    [this.#world, this.#path, this.plugin, this.name] = [world, directory.path, plugin, name];
    [this.root, this.at] = [directory.root, directory.at];
  }

  async begin(): Promise<void> {
    await this.driver.start();
    const made = await this.#world.ask("POST", "/v1/agent/tokens", {});
    this.start({ SALLYPORT_JOIN_TOKEN: made.body.Token });
    await this.isReady();
    await vi.waitFor(async () => {
      const { body } = await this.#world.ask("GET", `/v1/plugin/csi/${this.plugin}`);
      const here = { ...body?.Controllers, ...body?.Nodes }[this.id];
      expect(here?.Healthy, this.log).toBe(true);
    }, PATIENT);
  }

  start(env: Record<string, string> = {}): void {
    this.agents.push(startAgent(this.#path, env));
  }

  /** Stops the agent as a package manager does, and starts the next version on its state. */
  async upgrade(version: string): Promise<void> {
    const old = this.agents.at(-1);
    old?.child.kill("SIGTERM");
    expect(await old?.exit, this.log).toBe(0);
    const program = readFileSync(programOf("agent/src/main.ts"), "utf8");
    const file = this.at(`agent-${version}.mjs`);
    const own = /(name: "@sallyport\/agent",\n\s*version: )"[^"]+"/;
    expect(program).toMatch(own);
    writeFileSync(file, program.replace(own, `$1"${version}"`));
    this.agents.push(new AgentProcess(["--config", this.#path], {}, [file]));
  }

  /** Kills the agent, but not its driver. */
  async kill(): Promise<void> {
    await this.agents.at(-1)?.kill();
  }

  get log(): string {
    return this.agents.map(({ log, out }) => log + out).join("\n");
  }

  async isReady(status = "ready"): Promise<void> {
    await vi.waitFor(async () => {
      const filter = encodeURIComponent(`Name == "${this.name}"`);
      const [node] = (await this.#world.ask("GET", `/v1/nodes?filter=${filter}`)).body;
      expect(node?.Status, this.log).toBe(status);
      this.id = node.ID;
    }, PATIENT);
  }

  /** The path of an allocation's volumes on this node. */
  mounts = (): string[] =>
    !existsSync(this.at("mounts"))
      ? []
      : readdirSync(this.at("mounts"), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isSymbolicLink())
          .map(({ parentPath, name }) => join(parentPath, name));

  /** The driver's record of a volume. */
  record = (externalId: string): { bytes: string; published: Record<string, unknown> } =>
    JSON.parse(readFileSync(join(this.driver.root, "volumes", externalId, "record.json"), "utf8"));
}
