import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Fields, type Line, NomadState, namespaceOf, type Table } from "./nomad-state.ts";

/**
 * A stand-in for the HTTP API of a Nomad server, as far as a mirror needs it. It is stricter than Nomad: it refuses
 * parameters and paths that Nomad ignores, cuts lines into small chunks, reverses the members of every answer,
 * ends streams of slow readers at once, and may answer 500 as during elections.
 */

const PARAMETERS: ReadonlySet<string> = new Set("namespace region index wait topic per_page next_token".split(" "));
const LISTS: Readonly<Record<string, Table>> = {
  jobs: "Job",
  allocations: "Allocation",
  evaluations: "Evaluation",
  deployments: "Deployment",
  nodes: "Node",
  "node/pools": "NodePool",
};
const READS: Readonly<Record<string, readonly [Table, string]>> = {
  job: ["Job", "job not found"],
  allocation: ["Allocation", "alloc not found"],
  node: ["Node", "node not found"],
};
/** Lists that show a few fields of each object. */
const STUBS: ReadonlySet<string> = new Set(["Job", "Allocation", "Node"]);
const CHUNK_BYTES = 1_021;
const HEARTBEAT = "{}\n";

class Answered extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

export interface NomadOptions {
  readonly token?: string;
  /** Transactions in memory, as Nomad's `event_buffer_size`. */
  readonly bufferSize?: number;
  /** The one namespace in which the token has rights; all by default. */
  readonly namespace?: string;
}

interface Reader {
  readonly response: ServerResponse;
  readonly topics: ReadonlySet<string>;
  /** Those that existed when the stream was opened. */
  readonly namespaces: ReadonlySet<string>;
}

export class FakeNomad {
  readonly state: NomadState;
  readonly #token: string;
  readonly #namespace: string | undefined;
  #server: Server | undefined;
  #port = 0;
  readonly #readers = new Set<Reader>();
  #waiters: (() => void)[] = [];
  /** Answers every request but streams with 500 while positive, and counts down. */
  elections = 0;
  /** Counts of requests by first path segments. */
  readonly requests = new Map<string, number>();

  constructor({ token = "nomad-token", bufferSize = 100, namespace }: NomadOptions = {}) {
    this.#namespace = namespace;
    this.#token = token;
    this.state = new NomadState(bufferSize);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get streams(): number {
    return this.#readers.size;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#answer(request, response));
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#readers.clear();
    server?.closeAllConnections();
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
  }

  /** Another server becomes the leader: streams end, and its buffer holds other lines. */
  changeLeader(held: readonly Line[] = []): void {
    this.state.lines = [...held];
    this.elections = 5;
    for (const { response } of this.#readers) response.destroy();
    this.#readers.clear();
  }

  /** Sends new lines to open streams. */
  publish(lines: readonly Line[]): void {
    for (const reader of this.#readers) for (const line of lines) this.#send(reader, line);
  }

  /** Commits as `NomadState.commit`, and sends the line. */
  commit(...parameters: Parameters<NomadState["commit"]>): number {
    const index = this.state.commit(...parameters);
    this.publish(this.state.lines.slice(-1));
    return index;
  }

  replay(text: string): void {
    const before = this.state.history.length;
    this.state.replay(text);
    this.publish(this.state.history.slice(before));
  }

  addNamespace(name: string): void {
    this.state.addNamespace(name);
    this.#wake();
  }

  removeNamespace(name: string): void {
    this.state.removeNamespace(name);
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = new URL(request.url ?? "/", this.url);
      if (request.method !== "GET") throw new Answered(405, "Invalid method");
      if (request.headers["x-nomad-token"] !== this.#token) throw new Answered(403, "Permission denied");
      const wanted = url.searchParams.get("namespace");
      if (this.#namespace && wanted && wanted !== this.#namespace) throw new Answered(403, "Permission denied");
      for (const name of url.searchParams.keys())
        if (!PARAMETERS.has(name)) throw new Answered(400, `unexpected parameter ${name}`);
      const path = url.pathname.replace(/^\/v1\//, "");
      const [head = ""] = path.split("/");
      this.requests.set(head, (this.requests.get(head) ?? 0) + 1);
      if (path === "event/stream") return this.#stream(url.searchParams, response);
      if (this.elections > 0) {
        this.elections -= 1;
        throw new Answered(500, "No cluster leader");
      }
      await this.#read(path, url.searchParams, response);
    } catch (failure) {
      response.statusCode = failure instanceof Answered ? failure.status : 500;
      response.end(failure instanceof Error ? failure.message : "");
    }
  }

  #stream(query: URLSearchParams, response: ServerResponse): void {
    const topics = new Set(query.getAll("topic"));
    if (topics.size === 0) throw new Answered(403, "Permission denied");
    const wanted = query.get("namespace") ?? "default";
    const namespaces = new Set(wanted === "*" ? this.state.namespaces.keys() : [wanted]);
    response.writeHead(200, { "content-type": "application/json", "cache-control": "no-cache" });
    response.write(HEARTBEAT);
    const reader = { response, topics, namespaces };
    response.on("close", () => this.#readers.delete(reader));
    const from = Number(query.get("index") ?? 0);
    const { lines } = this.state;
    const at = lines.findIndex(({ index }) => index >= from);
    // A future index begins with the newest line, however old.
    for (const line of at < 0 ? lines.slice(-1) : lines.slice(at)) this.#send(reader, line);
    this.#readers.add(reader);
  }

  #send({ response, topics, namespaces }: Reader, { index, events }: Line): void {
    const wanted = events.filter(
      ({ topic, namespace }) => topics.has(topic) && (namespace === "" || namespaces.has(namespace)),
    );
    if (wanted.length === 0) return;
    const bytes = Buffer.from(`{"Events":[${wanted.map(({ text }) => text).join(",")}],"Index":${index}}\n`);
    const step = bytes.length > 1_000_000 ? 65_521 : CHUNK_BYTES;
    for (let at = 0; at < bytes.length; at += step) response.write(bytes.subarray(at, at + step));
  }

  async #read(path: string, query: URLSearchParams, response: ServerResponse): Promise<void> {
    const { state } = this;
    if (path === "namespaces") return this.#namespaces(query, response);
    const table = LISTS[path];
    if (table) {
      const rows = state.list(table).filter((row) => visible(table, row, query));
      return paged(response, query, state.indexes.get(table) ?? 1, STUBS.has(table) ? rows.map(stubOf) : rows);
    }
    if (path === "services") return send(response, state.indexes.get("Service") ?? 1, servicesOf(state, query));
    const [head = "", ...rest] = path.split("/");
    const id = decodeURIComponent(rest.join("/"));
    if (head === "service") {
      const rows = state.list("Service").filter((row) => row["ServiceName"] === id && visible("Service", row, query));
      return send(response, state.indexes.get("Service") ?? 1, rows);
    }
    const read = READS[head];
    if (!read) throw new Answered(404, `unexpected path ${path}`);
    const [topic, missing] = read;
    const found = state.read(topic, query.get("namespace") ?? "default", id);
    if (!found) throw new Answered(404, missing);
    send(response, Number(found["ModifyIndex"]), found);
  }

  async #namespaces(query: URLSearchParams, response: ServerResponse): Promise<void> {
    const since = Number(query.get("index") ?? 0);
    if (since > 0 && this.state.namespaceIndex <= since) {
      await new Promise<void>((resolve) => {
        this.#waiters.push(resolve);
        setTimeout(resolve, 60_000).unref();
      });
    }
    send(
      response,
      this.state.namespaceIndex,
      [...this.state.namespaces].map(([Name, index]) => ({ Name, CreateIndex: index, ModifyIndex: index })),
    );
  }
}

function visible(table: Table, row: Fields, query: URLSearchParams): boolean {
  const namespace = namespaceOf(table, row);
  const wanted = query.get("namespace") ?? "default";
  return namespace === "" || wanted === "*" || wanted === namespace;
}

function stubOf(row: Fields): Fields {
  const { ID, Namespace, Name, Status, ClientStatus, JobID, CreateIndex, ModifyIndex } = row;
  return { ID, Namespace, Name, Status, ClientStatus, JobID, CreateIndex, ModifyIndex };
}

function servicesOf(state: NomadState, query: URLSearchParams): unknown {
  const rows = state.list("Service").filter((row) => visible("Service", row, query));
  return [...Map.groupBy(rows, (row) => String(row["Namespace"]))].map(([Namespace, group]) => ({
    Namespace,
    Services: [...new Set(group.map((row) => row["ServiceName"]))].map((ServiceName) => ({ ServiceName, Tags: [] })),
  }));
}

function paged(response: ServerResponse, query: URLSearchParams, index: number, rows: readonly Fields[]): void {
  const size = Number(query.get("per_page") ?? 0) || rows.length;
  const from = Number(query.get("next_token") ?? 0);
  if (from + size < rows.length) response.setHeader("X-Nomad-NextToken", String(from + size));
  send(response, index, rows.slice(from, from + size));
}

function send(response: ServerResponse, index: number, body: unknown): void {
  response.setHeader("X-Nomad-Index", String(index));
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(reordered(body)));
}

/** Nomad promises no order of members. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== "object" || value === null || "rawJSON" in value) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, each]) => [name, reordered(each)]),
  );
}
