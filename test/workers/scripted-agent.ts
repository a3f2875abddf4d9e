import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import {
  type AgentFrame,
  type Hello,
  type NodeReport,
  type ServiceFrame,
  SUBPROTOCOL,
  type Welcome,
} from "@sallyport/agent-protocol";
import { SignJWT } from "jose";
import { vi } from "vitest";
import type { Operation } from "../../src/contracts/node-operation.ts";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import type { NodeSession } from "../../src/objects/node-session.ts";
import { nodeSession } from "../../src/rpc/stubs.ts";
import { type Answer, send } from "./client.ts";
import { evictObject } from "./evict-all.ts";

/** An agent that a test controls, over the same WebSocket as a real one. */

/** Waits until a check holds. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout: 45_000, interval: 30 });

export const nodeReport = (more: Partial<NodeReport> = {}): NodeReport => ({
  Name: "node-1",
  Datacenter: "dc1",
  NodeClass: "",
  NodePool: "default",
  Attributes: { "kernel.name": "linux", "plugins.host_volume.mkdir.version": "0.0.1" },
  Meta: {},
  NodeResources: {
    Cpu: { CpuShares: 4000, TotalCpuCores: 4 },
    Memory: { MemoryMB: 8000 },
    Disk: { DiskMB: 100_000 },
    Networks: [],
    NodeNetworks: [],
  },
  ReservedResources: {
    Cpu: { CpuShares: 0 },
    Memory: { MemoryMB: 0 },
    Disk: { DiskMB: 0 },
    Networks: { ReservedHostPorts: "" },
  },
  Drivers: {},
  HostVolumes: {},
  ...more,
});

export const hello = (more: Partial<Hello> = {}): Hello => ({
  t: "hello",
  proto: [1, 1],
  agent: "0.1.0",
  boot: "boot-1",
  epoch: 1,
  node: nodeReport(),
  unavailableVolumes: [],
  journal: [],
  features: ["dhv.create"],
  ...more,
});

export const joinToken = async (body: object = {}): Promise<Answer["body"]> => {
  const made = await send("POST", "/v1/agent/tokens", body);
  if (made.status !== 200) throw new Error(`no join token: ${made.text}`);
  return made.body;
};

export interface Identity {
  readonly keys: CryptoKeyPair;
  readonly publicKey: string;
}

export async function newIdentity(): Promise<Identity> {
  const keys = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
  const raw = (await crypto.subtle.exportKey("raw", keys.publicKey)) as ArrayBuffer;
  return { keys, publicKey: Buffer.from(raw).toString("base64") };
}

export const join = (token: string, { publicKey }: Identity, name = "node-1"): Promise<Answer> =>
  send("POST", "/v1/agent/join", { Token: token, PublicKey: publicKey, Name: name }, { token: null });

interface Claims {
  readonly iss?: string;
  readonly sub?: string;
  readonly aud?: string;
  readonly jti?: string;
  /** Seconds since 1970. */
  readonly iat?: number;
  readonly exp?: number;
}

/** One WebSocket, as the agent's end of it. */
export class AgentSocket {
  readonly frames: ServiceFrame[] = [];
  readonly texts: string[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => {
      socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason }));
    });
    socket.addEventListener("message", ({ data }) => {
      const text = String(data);
      this.texts.push(text);
      this.frames.push(JSON.parse(text));
    });
    socket.accept();
  }

  send(frame: AgentFrame | string | Uint8Array): void {
    this.#socket.send(typeof frame === "string" || frame instanceof Uint8Array ? frame : JSON.stringify(frame));
  }

  close(code = 1000): void {
    this.#socket.close(code, "the test says so");
  }

  /** The received frames of one type, once there are this many. */
  async seen<T extends ServiceFrame["t"]>(t: T, count = 1): Promise<Extract<ServiceFrame, { t: T }>[]> {
    const of = () => this.frames.filter((frame): frame is Extract<ServiceFrame, { t: T }> => frame.t === t);
    await eventually(() => {
      if (of().length < count) throw new Error(`${of().length} of ${count} ${t}: ${JSON.stringify(this.frames)}`);
    });
    return of();
  }

  async welcome(more: Partial<Hello> = {}): Promise<Welcome> {
    this.send(hello(more));
    const [welcome] = await this.seen("welcome");
    if (!welcome) throw new Error("not welcome");
    return welcome;
  }

  /** Time for responses, before a check that something did not happen. */
  async settled(): Promise<void> {
    const before = this.texts.length;
    this.send('{"t":"ping"}');
    await eventually(() => {
      if (this.texts.length === before) throw new Error("no pong");
    });
    await scheduler.wait(30);
  }
}

export class ScriptedAgent {
  readonly node: string;
  readonly service: string;
  readonly identity: Identity;

  constructor(node: string, service: string, identity: Identity) {
    this.node = node;
    this.service = service;
    this.identity = identity;
  }

  /** Joins with a new token. */
  static async joined(token: object = {}, name = "node-1"): Promise<ScriptedAgent> {
    const identity = await newIdentity();
    const answer = await join((await joinToken(token)).Token, identity, name);
    if (answer.status !== 200) throw new Error(`not joined: ${answer.text}`);
    return new ScriptedAgent(answer.body.NodeID, answer.body.Service, identity);
  }

  /** Joined, connected and welcomed. */
  static async connected(more: Partial<Hello> = {}): Promise<[ScriptedAgent, AgentSocket]> {
    const agent = await ScriptedAgent.joined();
    const socket = await agent.connect();
    await socket.welcome(more);
    return [agent, socket];
  }

  token(claims: Claims = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1_000);
    const iat = claims.iat ?? now;
    return new SignJWT({
      iss: this.node,
      sub: this.node,
      aud: this.service,
      jti: crypto.randomUUID(),
      iat,
      exp: iat + 60,
      ...claims,
    })
      .setProtectedHeader({ alg: "EdDSA" })
      .sign(this.identity.keys.privateKey);
  }

  async request(token: string, headers: Record<string, string> = {}): Promise<Response> {
    return exports.default.fetch("https://x/v1/agent/connect", {
      headers: {
        Upgrade: "websocket",
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
        Authorization: `Bearer ${token}`,
        ...headers,
      },
    });
  }

  async connect(claims: Claims = {}): Promise<AgentSocket> {
    const response = await this.request(await this.token(claims));
    if (!response.webSocket) throw new Error(`not connected: ${response.status} ${await response.text()}`);
    return new AgentSocket(response.webSocket);
  }

  get session() {
    return nodeSession(env, this.node);
  }

  get stub(): DurableObjectStub<NodeSession> {
    return env.NODE_SESSION.getByName(this.node) as DurableObjectStub<NodeSession>;
  }

  /** Reads of the session's own rows. */
  rows(query: string, ...bindings: unknown[]): Promise<Record<string, unknown>[]> {
    return runInDurableObject(this.stub, (_session, { storage }) => storage.sql.exec(query, ...bindings).toArray());
  }

  /** The power goes out: memory and sockets are gone. */
  async kill(): Promise<void> {
    const died = runInDurableObject(this.stub, (_session, state) => state.abort("killed by a test"));
    await died.catch(() => undefined);
  }

  /** Memory is gone, sockets are not. */
  async hibernate(): Promise<void> {
    await evictObject(this.stub);
  }
}

export const readNode = async (node: string): Promise<Answer["body"]> => (await send("GET", `/v1/node/${node}`)).body;

/** A node's status as the registry has it. */
export const statusOf = (node: string): Promise<string | undefined> =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (registry) => {
    const found = (registry as unknown as ClusterRegistry).readNode(node);
    return found ? JSON.parse(found.body).Status : undefined;
  });

let counter = 0;
/** A UUID version 7 that is later than those before it. */
export function operationId(): string {
  counter += 1;
  return `01939b5e-7a10-7${(counter >> 12).toString(16).padStart(3, "0")}-8b5e-${(counter & 0xfff).toString(16).padStart(12, "0")}`;
}

export const operation = (more: Partial<Operation> = {}): Operation => {
  const volume = crypto.randomUUID();
  return {
    id: operationId(),
    method: "dhv.delete",
    key: `dhv:${volume}`,
    gen: 1,
    deadlineMs: 60_000,
    params: { id: volume },
    ...more,
  };
};

/** The outcomes delivered to the owners of operations, in order: `[node, id, result]`. */
export function outcomes() {
  const told: [string, string, { state: string }][] = [];
  const spy = vi.spyOn(ClusterRegistry.prototype, "operationDone").mockImplementation(async (node, id, result) => {
    told.push([node, id, result]);
  });
  return { told, spy };
}

export const done = (op: string, result: Record<string, unknown> = {}): AgentFrame => ({
  t: "res",
  op,
  ms: 5,
  ok: true,
  result,
});

/** A connected agent that was sent an operation. */
export async function agentWithOperation(more: Parameters<typeof operation>[0] = {}) {
  const owner = outcomes();
  const [agent, socket] = await ScriptedAgent.connected();
  const wanted = operation(more);
  await agent.session.start(wanted);
  await socket.seen("req");
  return { owner, agent, socket, wanted };
}
