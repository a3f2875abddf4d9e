/** The load generator: a separate process, so that it does not share a thread with the measured code. */
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Connection, dial, wire } from "./connection.ts";
import { ownCpu, quantiles } from "./statistics.ts";

/** Requests to `path` + a key's name, each connection sending its next when the last is answered. */
export interface Requests {
  readonly kind: "requests";
  readonly port: number;
  readonly token: string;
  readonly method: "GET" | "PUT" | "OPTIONS";
  readonly path: string;
  readonly body: string;
  readonly connections: number;
  /** 0 = every request is to `path` alone. */
  readonly keys: number;
  readonly ms: number;
  /** Each key once, in order, instead of random keys for the whole time. */
  readonly once?: boolean;
  /** See `wire`. */
  readonly header?: string;
}
export interface Measured {
  readonly requests: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
  readonly tail: Tail;
  /** CPU seconds of the load generator itself: near `seconds` means that it, not the server, was measured. */
  readonly own: number;
}

/** The slow end of the times of requests, in milliseconds. */
export interface Tail {
  readonly p90: number;
  readonly p999: number;
  readonly max: number;
  /** Requests that took more than ten times the median. */
  readonly pauses: number;
}

export interface Open {
  readonly kind: "open";
  readonly group: string;
  readonly port: number;
  readonly token: string;
  readonly path: string;
  readonly streams: number;
  /** The type of a stream of server-sent events, which begins without a line. */
  readonly accept?: string;
  /** A text that each line with an event has once; only these lines count. The first of them shows that a stream is open. */
  readonly mark?: string;
  readonly header?: string;
}
export interface Close {
  readonly kind: "close";
  readonly group: string;
}

/** Publishes `lines` lines, waits until each stream of the group has all of them, and again. */
export interface Publish {
  readonly kind: "publish";
  readonly group: string;
  readonly port: number;
  readonly path: string;
  readonly body: string;
  readonly lines: number;
  readonly ms: number;
  /** A request of the API whose events are the lines, instead of numbered lines of a producer. */
  readonly request?: { readonly method: "PUT"; readonly token: string; readonly header?: string };
  /** Requests that are sent together, each with its lines; 1 by default. */
  readonly atOnce?: number;
  /** Single writes: times are counted from the answer to the request, and the next one follows after this pause. */
  readonly pauseMs?: number;
}
export interface Delivered {
  readonly lines: number;
  readonly seconds: number;
  /** Milliseconds from sending lines until the last stream had the last of them. */
  readonly p50: number;
  readonly p99: number;
  readonly own: number;
}

/** Reads one stream from its beginning until `lines` lines are here, one stream after another. */
export interface Replay {
  readonly kind: "replay";
  readonly port: number;
  readonly token: string;
  readonly path: string;
  readonly lines: number;
}
export interface Replayed {
  /** Until the last line was received. */
  readonly seconds: number;
  readonly bytes: number;
  readonly own: number;
}

/** From now on the streams of the group look for a text in their lines. */
export interface Seek {
  readonly kind: "seek";
  readonly group: string;
  readonly text: string;
}
/** Waits until each stream of the group has received the text. */
export interface Found {
  readonly kind: "found";
  readonly group: string;
}

export type Job = Requests | Open | Close | Publish | Replay | Seek | Found;

const LINE_END = Buffer.from("}\n");
const OPEN_AT_ONCE = 50;

/** Counts in the pieces of a stream. */
type Counter = (bytes: Buffer) => number;

function lineEnds(): Counter {
  let split = false;
  return (bytes) => {
    let count = split && bytes[0] === 0x0a ? 1 : 0;
    for (let at = bytes.indexOf(LINE_END); at >= 0; at = bytes.indexOf(LINE_END, at + 2)) count += 1;
    split = bytes.at(-1) === 0x7d;
    return count;
  };
}

function texts(text: string): Counter {
  let rest = Buffer.alloc(0);
  return (bytes) => {
    const all = Buffer.concat([rest, bytes]);
    let count = 0;
    for (let at = all.indexOf(text); at >= 0; at = all.indexOf(text, at + text.length)) count += 1;
    rest = all.subarray(Math.max(0, all.length - text.length + 1));
    return count;
  };
}

class Streams {
  readonly #sockets: Socket[] = [];
  #lines = 0;
  #wanted = Number.POSITIVE_INFINITY;
  #reached = Promise.withResolvers<void>();
  #text = "";
  /** Sockets that have not received the text, with the end of their bytes so far: the text may be split. */
  #seeking = new Map<Socket, Buffer>();
  #found = Promise.withResolvers<void>();

  get size(): number {
    return this.#sockets.length;
  }

  async open(job: Open): Promise<void> {
    for (let opened = 0; opened < job.streams; opened += OPEN_AT_ONCE) {
      const some = Math.min(OPEN_AT_ONCE, job.streams - opened);
      await Promise.all(Array.from({ length: some }, () => this.#openOne(job)));
    }
  }

  /** Resolves when all streams together have received `count` more lines. */
  expect(count: number): Promise<void> {
    this.#reached = Promise.withResolvers<void>();
    this.#wanted = this.#lines + count;
    return this.#reached.promise;
  }

  seek(text: string): void {
    this.#text = text;
    this.#seeking = new Map(this.#sockets.map((socket) => [socket, Buffer.alloc(0)]));
    this.#found = Promise.withResolvers<void>();
  }

  /** Resolves when all streams have received the text that they seek. */
  get found(): Promise<void> {
    return this.#found.promise;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #look(socket: Socket, bytes: Buffer): void {
    const before = this.#seeking.get(socket);
    if (!before) return;
    if (
      !bytes.includes(this.#text) &&
      !Buffer.concat([before, bytes.subarray(0, this.#text.length)]).includes(this.#text)
    ) {
      this.#seeking.set(socket, Buffer.from(bytes.subarray(-this.#text.length)));
      return;
    }
    this.#seeking.delete(socket);
    if (this.#seeking.size === 0) this.#found.resolve();
  }

  async #openOne({ port, path, token, accept, mark, header }: Open): Promise<void> {
    const socket = await dial(port);
    this.#sockets.push(socket);
    socket.write(wire("GET", path, token, "", accept, header));
    // The server starts each stream with one line, which confirms that it is open.
    const greeted = Promise.withResolvers<void>();
    let begun = false;
    const counter = mark === undefined ? lineEnds() : texts(mark);
    socket.on("data", (bytes: Buffer) => {
      this.#look(socket, bytes);
      let count = counter(bytes);
      if (!begun && (accept ? bytes.includes("id: ") : count > 0)) {
        begun = true;
        if (!accept) count -= 1;
        greeted.resolve();
      }
      this.#lines += count;
      if (this.#lines >= this.#wanted) this.#reached.resolve();
    });
    socket.on("close", () => greeted.reject(new Error("a stream was refused")));
    await greeted.promise;
  }
}

const groups = new Map<string, Streams>();
/** The number of the next line of each group: a producer numbers its lines continuously. */
const published = new Map<string, number>();

async function requests(job: Requests): Promise<Measured> {
  const { method, path, token, body, keys, ms, header } = job;
  const connections = await Promise.all(Array.from({ length: job.connections }, () => Connection.open(job.port)));
  const took: number[] = [];
  const began = performance.now();
  const cpu = process.cpuUsage();
  let next = 0;
  const drive = (connection: Connection) =>
    new Promise<void>((resolve, reject) => {
      const send = () => {
        const key = job.once ? next++ : Math.floor(Math.random() * keys);
        const sent = performance.now();
        if (sent - began >= ms || key > Math.max(0, keys - 1)) return resolve();
        const target = keys === 0 ? path : path + keyName(key);
        connection.send(wire(method, target, token, body, undefined, header), (failure) => {
          if (failure) return reject(failure);
          took.push(performance.now() - sent);
          send();
        });
      };
      send();
    });
  await Promise.all(connections.map(drive));
  const seconds = (performance.now() - began) / 1000;
  for (const connection of connections) connection.close();
  const at = quantiles(took);
  const [p50, p99] = [at(0.5), at(0.99)];
  const pauses = took.filter((time) => time > PAUSE * p50).length;
  const tail = { p90: at(0.9), p999: at(0.999), max: took.at(-1) ?? 0, pauses };
  return { requests: took.length, seconds, p50, p99, tail, own: ownCpu(cpu) };
}

/** A pause is this many times the median. */
const PAUSE = 10;

async function publish({
  group,
  port,
  path,
  body,
  lines,
  ms,
  request,
  atOnce = 1,
  pauseMs,
}: Publish): Promise<Delivered> {
  const streams = groups.get(group);
  if (!streams) throw new Error(`no streams ${group}`);
  const connections = await Promise.all(Array.from({ length: atOnce }, () => Connection.open(port)));
  const began = performance.now();
  const cpu = process.cpuUsage();
  let delivered = 0;
  const took: number[] = [];
  while (performance.now() - began < ms) {
    const seq = published.get(group) ?? 1;
    published.set(group, seq + lines);
    const all = lines * connections.length * streams.size;
    const arrived = streams.expect(all);
    const sent = performance.now();
    const ask = (connection: Connection) =>
      connection.ask(
        request
          ? wire(request.method, path, request.token, body, undefined, request.header)
          : wire("POST", `${path}?count=${lines}&seq=${seq}`, "", body),
      );
    await Promise.all(connections.map(ask));
    const answered = performance.now();
    await arrived;
    took.push(performance.now() - (pauseMs === undefined ? sent : answered));
    if (pauseMs !== undefined) await sleep(pauseMs);
    delivered += all;
  }
  for (const connection of connections) connection.close();
  const at = quantiles(took);
  const seconds = (performance.now() - began) / 1000;
  return { lines: delivered, seconds, p50: at(0.5), p99: at(0.99), own: ownCpu(cpu) };
}

async function replay({ port, token, path, lines }: Replay): Promise<Replayed> {
  const cpu = process.cpuUsage();
  const socket = await dial(port);
  const began = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let missing = lines;
  let bytes = 0;
  let split = false;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (split && chunk[0] === 0x0a) missing -= 1;
    for (let at = chunk.indexOf(LINE_END); at >= 0; at = chunk.indexOf(LINE_END, at + 2)) missing -= 1;
    split = chunk.at(-1) === 0x7d;
    if (missing <= 0) resolve();
  });
  socket.on("close", () => reject(new Error("a replay was cut")));
  socket.write(wire("GET", path, token));
  await promise;
  const seconds = (performance.now() - began) / 1000;
  socket.destroy();
  return { seconds, bytes, own: ownCpu(cpu) };
}

const keyName = (key: number): string => `app/k${String(key).padStart(6, "0")}`;

async function run(job: Job): Promise<Measured | Delivered | Replayed | null> {
  if (job.kind === "requests") return requests(job);
  if (job.kind === "publish") return publish(job);
  if (job.kind === "replay") return replay(job);
  if (job.kind === "open") {
    const streams = new Streams();
    groups.set(job.group, streams);
    await streams.open(job);
  } else if (job.kind === "seek") groups.get(job.group)?.seek(job.text);
  else if (job.kind === "found") await groups.get(job.group)?.found;
  else {
    groups.get(job.group)?.close();
    groups.delete(job.group);
  }
  return null;
}

process.on("message", (job: Job) => {
  run(job).then(
    (result) => process.send?.({ result }),
    (failure) => process.send?.({ failure: String(failure) }),
  );
});
process.on("disconnect", () => process.exit());
