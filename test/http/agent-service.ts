import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type AgentFrame,
  CONNECT_PATH,
  connectClaims,
  type Hello,
  JOIN_PATH,
  joinRequest,
  PING,
  PONG,
  parseAgentFrame,
  type Req,
  type Res,
  type ServiceFrame,
  SUBPROTOCOL,
  type Welcome,
} from "@sallyport/agent-protocol";
import { importJWK, jwtVerify } from "jose";
import { type WebSocket, WebSocketServer } from "ws";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { afterTest } from "./after-test.ts";
import { programOf } from "./prepared-program.ts";

export { afterTest };

export const NODE_ID = "5f3c2a10-7a10-4cc1-8b5e-0d3f5a2b9c11";
export const AUDIENCE = "sallyport-of-the-tests";
export const JOIN_TOKEN = "join-token-CANARY-7f3a9c";

/** Resolves with the first defined result of `check`; fails with `what` after a deadline. */
export async function eventually<T>(what: string, check: () => T | undefined, withinMs = 45_000): Promise<T> {
  const until = Date.now() + withinMs;
  for (;;) {
    const found = check();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > until) throw new Error(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** One connection of an agent, at the service's side. */
export class AgentSession {
  readonly socket: WebSocket;
  readonly frames: AgentFrame[] = [];
  readonly texts: string[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data) => {
      const text = data.toString();
      this.texts.push(text);
      if (text === PING) socket.send(PONG);
      else this.#read(text);
    });
    this.closed = new Promise((resolve) => {
      socket.on("close", (code, reason) => resolve({ code, reason: reason.toString() }));
    });
  }

  #read(text: string): void {
    const parsed = parseAgentFrame(text);
    if (!parsed.ok) throw new Error(`the agent broke the protocol: ${parsed.message}`);
    this.frames.push(parsed.frame);
  }

  send(frame: ServiceFrame): void {
    this.socket.send(JSON.stringify(frame));
  }

  hello(): Promise<Hello> {
    return eventually("hello", () => this.frames.find((frame) => frame.t === "hello"));
  }

  /** Answers `hello`, by default with short intervals. */
  async welcome(change: Partial<Omit<Welcome, "cfg">> & { cfg?: Partial<Welcome["cfg"]> } = {}): Promise<Hello> {
    const hello = await this.hello();
    const cfg = { pingMs: 100, deadMs: 5_000, fingerprintMs: 60_000, maxInflight: 32, ...change.cfg };
    const none = { resume: [], forget: [], unknownVolumes: [] };
    this.send({ t: "welcome", proto: 1, session: "s", serverTime: Date.now(), ...none, ...change, cfg });
    return hello;
  }

  request(request: Pick<Req, "op" | "method"> & Partial<Req>): void {
    this.send({ t: "req", key: "k", gen: 1, deadlineMs: 30_000, params: {}, ...request });
  }

  acks(op: string): string[] {
    return this.frames.flatMap((frame) => (frame.t === "ack" && frame.op === op ? [frame.state] : []));
  }

  results(op: string): Res[] {
    return this.frames.filter((frame) => frame.t === "res").filter((frame) => frame.op === op);
  }

  /** The `number`th result of an operation, counted from 1. */
  result(op: string, number = 1): Promise<Res> {
    return eventually(`result ${number} of ${op}`, () => this.results(op)[number - 1]);
  }
}

interface Refusal {
  status: number;
  headers?: Record<string, string>;
}

/** A scripted service without volumes: the test decides its messages. */
export class FakeService {
  readonly sessions: AgentSession[] = [];
  readonly joins: Array<{ Token: string; PublicKey: string; Name: string }> = [];
  readonly jtis: string[] = [];
  /** Static files, by path. */
  readonly files = new Map<string, Buffer>();
  /** Refuses an upgrade. */
  onUpgrade: (request: IncomingMessage) => Refusal | undefined = () => undefined;
  onJoin: () => { status: number; body: string } = () => ({
    status: 200,
    body: JSON.stringify({ NodeID: NODE_ID, Service: AUDIENCE }),
  });
  /** Seconds by which the service's clock is ahead. */
  clockAhead = 0;
  /** The reasons of refused connections. */
  refusals: string[] = [];
  #taken = 0;
  url = "";

  async listen(port = 0): Promise<this> {
    const sockets = new WebSocketServer({ noServer: true });
    const server = createServer(async (request, response) => {
      const file = request.method === "GET" ? this.files.get(request.url ?? "") : undefined;
      if (file) return response.end(file);
      if (request.url !== JOIN_PATH || request.method !== "POST") return response.writeHead(404).end();
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      this.joins.push(joinRequest.parse(JSON.parse(Buffer.concat(chunks).toString())));
      const { status, body } = this.onJoin();
      response.writeHead(status).end(body);
    });
    server.on("upgrade", async (request, socket, head) => {
      const refusal = this.onUpgrade(request) ?? (await this.#unauthorized(request));
      if (refusal) {
        const date = new Date(Date.now() + this.clockAhead * 1000).toUTCString();
        const headers = Object.entries({ date, connection: "close", ...refusal.headers });
        socket.end(
          `HTTP/1.1 ${refusal.status} No\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`,
        );
        return;
      }
      sockets.handleUpgrade(request, socket, head, (accepted) => this.sessions.push(new AgentSession(accepted)));
    });
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    afterTest(async () => {
      for (const { socket } of this.sessions) socket.terminate();
      server.closeAllConnections();
      server.close();
    });
    return this;
  }

  async #unauthorized(request: IncomingMessage): Promise<Refusal | undefined> {
    try {
      if (request.url !== CONNECT_PATH) throw new Error(`no such path: ${request.url}`);
      if (request.headers["sec-websocket-protocol"] !== SUBPROTOCOL) throw new Error("no subprotocol");
      const token = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
      const raw = Buffer.from(this.joins[0]?.PublicKey ?? "", "base64").toString("base64url");
      const key = await importJWK({ kty: "OKP", crv: "Ed25519", x: raw }, "EdDSA");
      const currentDate = new Date(Date.now() + this.clockAhead * 1000);
      const { payload } = await jwtVerify(token, key, { audience: AUDIENCE, currentDate, maxTokenAge: 60 });
      const claims = connectClaims.parse(payload);
      if (claims.sub !== NODE_ID) throw new Error("another node");
      if (this.jtis.includes(claims.jti)) throw new Error("replayed");
      this.jtis.push(claims.jti);
      return undefined;
    } catch (failure) {
      this.refusals.push(String(failure));
      return { status: 401 };
    }
  }

  /** The next connection that the test has not used yet. */
  session(withinMs?: number): Promise<AgentSession> {
    return eventually(
      "a connection",
      () => (this.sessions.length > this.#taken ? this.sessions[this.#taken++] : undefined),
      withinMs,
    );
  }
}

export const fakeService = () => new FakeService().listen();

/** Directories of a node, and its configuration for a service. */
export function nodeDirectory(service: string, change: Record<string, unknown> = {}) {
  const root = mkdtempSync(join(tmpdir(), "sallyport-agent-"));
  afterTest(() => rmSync(root, { recursive: true, force: true }));
  const at = (name: string) => join(root, name);
  mkdirSync(at("plugins"), { mode: 0o755 });
  mkdirSync(at("data"), { mode: 0o755 });
  const config = {
    service,
    name: "node-1",
    stateDir: at("state"),
    hostVolumes: { volumesDir: at("volumes"), pluginDir: at("plugins"), registerRoots: [at("data")] },
    ...change,
  };
  writeFileSync(at("config.json"), JSON.stringify(config));
  return { root, at, config, path: at("config.json") };
}

/** A plugin for host volumes, written in sh. */
export function writePlugin(directory: string, name: string, body: string): void {
  writeFileSync(join(directory, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
}

export class AgentProcess {
  readonly child: ChildProcess;
  log = "";
  out = "";
  readonly exit: Promise<number | NodeJS.Signals | null>;

  constructor(args: string[], env: Record<string, string> = {}, program = [programOf("agent/src/main.ts")]) {
    this.child = spawn(process.execPath, [...program, ...args], {
      env: { ...PROGRAM_ENV, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child.stderr?.on("data", (text) => {
      this.log += text;
    });
    this.child.stdout?.on("data", (text) => {
      this.out += text;
    });
    this.exit = new Promise((resolve) => this.child.on("close", (code, signal) => resolve(code ?? signal)));
    afterTest(() => this.kill());
  }

  /** Kills the process as the system does when memory is short, without cleanup. */
  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.exit;
  }
}

/** The agent as a separate process, joined with a token in its environment. */
export const startAgent = (configPath: string, env: Record<string, string> = { SALLYPORT_JOIN_TOKEN: JOIN_TOKEN }) =>
  new AgentProcess(["--config", configPath], env);
