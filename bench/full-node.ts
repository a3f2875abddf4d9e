/**
 * A node full of host volumes: clients create and delete volumes there for some time, by a real agent. The sizes of the
 * agent's frames and of the lines of the event stream are counted, and what was dropped.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SUBPROTOCOL } from "@sallyport/agent-protocol";
import { WebSocket, WebSocketServer } from "ws";
import { Connection, wire } from "./connection.ts";
import { ROOT, TICKS_PER_SECOND } from "./server.ts";
import type { ClusterService } from "./volumes-sides.ts";

export interface FullNodeScale {
  /** Volumes on the node, with those that come and go. */
  readonly volumes: number;
  readonly clients: number;
  readonly seconds: number;
}

/** A frame of the agent, or a line of the stream. */
export interface Size {
  readonly at: number;
  readonly what: string;
  readonly bytes: number;
}

export interface FullNodeResults {
  readonly scale: FullNodeScale;
  /** Creations and deletions. */
  readonly operations: number;
  readonly seconds: number;
  /** CPU seconds of the service and of the agent; null if the system does not report them. */
  readonly cpu: { readonly service: number; readonly agent: number } | null;
  readonly frames: readonly Size[];
  readonly lines: readonly Size[];
  /** When the time began, ms since 1970. */
  readonly begun: number;
  /** Refused requests, and closes of the agent's connection. */
  readonly dropped: readonly string[];
}

/** A proxy between agent and service, which records frames and close reasons. */
async function startWitness(port: number) {
  const frames: Size[] = [];
  const closes: string[] = [];
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => SUBPROTOCOL });
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const forward = httpRequest({ port, method, path: url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(forward);
  });
  server.on("upgrade", (incoming, socket, head) => {
    const authorization = incoming.headers.authorization ?? "";
    const service = new WebSocket(`ws://127.0.0.1:${port}${incoming.url}`, SUBPROTOCOL, { headers: { authorization } });
    service.on("error", () => socket.destroy());
    service.on("open", () =>
      sockets.handleUpgrade(incoming, socket, head, (agent) => {
        agent.on("message", (data) => {
          const text = data.toString();
          frames.push({ at: Date.now(), what: /"t":"(\w+)"/.exec(text)?.[1] ?? "?", bytes: text.length });
          service.send(text);
        });
        service.on("message", (data) => agent.send(data.toString()));
        service.on("close", (code, reason) => {
          closes.push(`${code} ${reason}`);
          agent.close();
        });
        agent.on("close", () => service.close());
      }),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    frames,
    closes,
    stop: () => server.closeAllConnections(),
  };
}

/** Follows the event stream. */
async function follow(
  port: number,
  token: string,
  stop: AbortSignal,
): Promise<{ lines: Size[]; ended: Promise<void> }> {
  const lines: Size[] = [];
  const response = await fetch(`http://127.0.0.1:${port}/v1/event/stream?namespace=*&index=-1`, {
    headers: { "X-Orch-Token": token },
    signal: stop,
  });
  const read = async () => {
    let rest = "";
    for await (const text of (response.body as ReadableStream).pipeThrough(new TextDecoderStream())) {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      for (const line of parts.filter((part) => part.length > 2)) {
        const { Events = [] } = JSON.parse(line) as {
          Events?: { Topic: string; Type: string; Payload: { Volume?: { State: string } } }[];
        };
        const what = Events.map(
          ({ Topic, Type, Payload }) =>
            `${Topic}/${Type}${Payload.Volume?.State === "unavailable" ? " unavailable" : ""}`,
        );
        lines.push({ at: Date.now(), what: [...new Set(what)].join("+"), bytes: line.length });
      }
    }
  };
  return { lines, ended: read().catch(() => {}) };
}

/** One caller, who sends its next request when the last is answered. */
class Client {
  readonly #port: number;
  readonly #token: string;
  readonly #refused: (failure: string) => void;
  #connection: Connection;

  private constructor(port: number, token: string, refused: (failure: string) => void, connection: Connection) {
    this.#port = port;
    this.#token = token;
    this.#refused = refused;
    this.#connection = connection;
  }

  static async open(port: number, token: string, refused: (failure: string) => void): Promise<Client> {
    return new Client(port, token, refused, await Connection.open(port));
  }

  /** @returns the id of the volume; undefined when it was refused */
  async create(name: string): Promise<string | undefined> {
    const body = JSON.stringify({ Volume: { Name: name, PluginID: "mkdir" } });
    const answer = await this.#ask("PUT", "/v1/volume/host/create", body);
    return answer && (JSON.parse(answer) as { Volume: { ID: string } }).Volume.ID;
  }

  async delete(id: string): Promise<boolean> {
    return (await this.#ask("DELETE", `/v1/volume/host/${id}`)) !== undefined;
  }

  close(): void {
    this.#connection.close();
  }

  async #ask(method: string, path: string, body?: string): Promise<string | undefined> {
    try {
      return String(await this.#connection.ask(wire(method, path, this.#token, body)));
    } catch (failure) {
      this.#refused(`${method} ${String(failure).slice(0, 200)}`);
      this.#connection = await Connection.open(this.#port);
      return undefined;
    }
  }
}

/** @param dir an empty directory of the agent; @param stops ends the agent with the bench, for any end */
export async function fullNode(
  service: ClusterService,
  dir: string,
  scale: FullNodeScale,
  stops: (one: { stop(): void }) => unknown,
): Promise<FullNodeResults> {
  const { volumes, clients, seconds } = scale;
  const { port } = service.server;
  const witness = await startWitness(port);
  const agent = await startAgent(service, witness.url, dir);
  stops({ stop: () => agent.kill("SIGKILL") });
  const refused: string[] = [];
  const asked = await Promise.all(
    Array.from({ length: clients }, () => Client.open(port, service.root, (failure) => refused.push(failure))),
  );
  while (!(await service.ask("GET", "/v1/nodes", undefined)).includes('"ready"')) await sleep(READY_EVERY_MS);
  // A node takes no more than its bound, so each client's volume has a place left for it.
  let made = 0;
  const fill = async (client: Client) => {
    while (made < volumes - clients) await client.create(`kept-${made++}`);
  };
  await Promise.all(asked.map(fill));
  if (refused.length > 0) throw new Error(`the node could not be filled: ${refused[0]}`);

  const stop = new AbortController();
  const stream = await follow(port, service.root, stop.signal);
  const cpu = () => ({ service: service.server.cpu(), agent: cpuOf(agent) });
  const [before, begun, firstFrame] = [cpu(), Date.now(), witness.frames.length];
  let operations = 0;
  const work = async (client: Client, number: number) => {
    for (let round = 0; Date.now() < begun + seconds * 1_000; round++) {
      const id = await client.create(`c${number}-${round}`);
      if (id !== undefined && (await client.delete(id))) operations += 2;
    }
  };
  await Promise.all(asked.map(work));
  const [after, took] = [cpu(), (Date.now() - begun) / 1_000];
  // Lines of the last operations.
  await sleep(LAST_LINES_MS);
  stop.abort();
  await stream.ended;
  // Before the agent's own.
  const closes = [...witness.closes];
  agent.kill("SIGTERM");
  await once(agent, "exit");
  for (const client of asked) client.close();
  witness.stop();
  const spent = (side: "service" | "agent") => (after[side] ?? Number.NaN) - (before[side] ?? Number.NaN);
  return {
    scale,
    operations,
    seconds: took,
    begun,
    cpu: Number.isNaN(spent("service") + spent("agent")) ? null : { service: spent("service"), agent: spent("agent") },
    frames: witness.frames.slice(firstFrame),
    lines: stream.lines,
    dropped: [...refused, ...closes],
  };
}

const READY_EVERY_MS = 200;
const LAST_LINES_MS = 1_000;

async function startAgent(service: ClusterService, url: string, dir: string): Promise<ChildProcess> {
  mkdirSync(join(dir, "plugins"), { recursive: true });
  const config = {
    service: url,
    name: "node-1",
    stateDir: join(dir, "state"),
    hostVolumes: { volumesDir: join(dir, "volumes"), pluginDir: join(dir, "plugins") },
  };
  writeFileSync(join(dir, "agent.json"), JSON.stringify(config));
  const { Token } = JSON.parse(await service.ask("POST", "/v1/agent/tokens", {})) as { Token: string };
  return spawn(process.execPath, [join(ROOT(), "agent/src/main.ts"), "--config", join(dir, "agent.json")], {
    env: { PATH: process.env["PATH"] ?? "", SALLYPORT_JOIN_TOKEN: Token },
    stdio: "ignore",
  });
}

/** Mean bytes of one kind in the first and in the last quarter of the time; null without any. */
export function quarters(
  { begun, scale }: Pick<FullNodeResults, "begun" | "scale">,
  sizes: readonly Size[],
  what: string,
): (number | null)[] {
  const ms = scale.seconds * 1_000;
  const parts = [sizes.filter(({ at }) => at < begun + ms / 4), sizes.filter(({ at }) => at >= begun + (ms * 3) / 4)];
  return parts.map((part) => {
    const bytes = part.filter((size) => size.what.includes(what)).map((size) => size.bytes);
    return bytes.length === 0 ? null : bytes.reduce((sum, each) => sum + each, 0) / bytes.length;
  });
}

/** CPU seconds of a process so far, or null if the system does not report it. */
function cpuOf({ pid }: ChildProcess): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return null;
  }
}
