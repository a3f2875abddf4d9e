import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { brotliDecompressSync, constants, gunzipSync } from "node:zlib";

/** HTTP over plain sockets: what no client library would send, and answers as they came. */

/** A raw request. The head is sent verbatim, so it can be malformed in any way. */
export interface Wire {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Bytes behind the head, already framed. */
  readonly body?: Buffer;
  /** The body goes out in pieces of this many bytes, with this pause in ms; for ever when it never ends. */
  readonly slowly?: { readonly piece: number; readonly pauseMs: number };
  /** A complete head, used instead of method, target and headers. */
  readonly head?: string;
}

export interface Reply {
  /** 0 when there was none: the connection was closed without a word. */
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
  readonly ms: number;
  /** Nothing more came within the time that an answer may take. */
  readonly hung: boolean;
}

/** Of a body, enough to judge it; streams are left after their first piece. */
const MAX_BYTES = 4 * 1024 * 1024;
const STREAM_MS = 500;

/** Connections to one port, used again where both sides allow it. */
export class Wires {
  readonly #port: number;
  readonly #idle: Socket[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  /** Sends one request and waits for its answer, at most `patienceMs`. */
  async send(wire: Wire, patienceMs: number): Promise<Reply> {
    const began = performance.now();
    const kept = this.#idle.pop();
    const reused = kept !== undefined;
    const socket = kept ?? this.#connect();
    const reply = await exchange(socket, wire, patienceMs, (keep) => {
      if (keep && !socket.destroyed && wire.slowly === undefined && wire.head === undefined) this.#idle.push(socket);
      else socket.destroy();
    });
    // A kept-alive connection may have been closed by the server at that moment, independent of this request.
    if (reply.status === 0 && reused && !reply.hung) return this.send(wire, patienceMs);
    return { ...reply, ms: performance.now() - began };
  }

  /** A connection that is dropped when the server closes it. */
  #connect(): Socket {
    const socket = connect(this.#port, "127.0.0.1");
    const leave = () => {
      const at = this.#idle.indexOf(socket);
      if (at >= 0) this.#idle.splice(at, 1);
      socket.destroy();
    };
    return socket.on("end", leave).on("close", leave).on("error", leave);
  }

  close(): void {
    for (const socket of this.#idle.splice(0)) socket.destroy();
  }
}

const headOf = ({ method, target, headers }: Wire): string =>
  [`${method} ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`), "", ""].join("\r\n");

function exchange(socket: Socket, wire: Wire, patienceMs: number, done: (keep: boolean) => void): Promise<Reply> {
  return new Promise((resolve) => {
    let input: Buffer = Buffer.alloc(0);
    let over = false;
    let stream: NodeJS.Timeout | undefined;
    const finish = (hung: boolean, keep: boolean) => {
      if (over) return;
      over = true;
      clearTimeout(patience);
      clearTimeout(stream);
      socket.off("data", read).off("close", left);
      done(keep);
      resolve({ ...parsed(input, wire.method), ms: 0, hung });
    };
    const patience = setTimeout(() => finish(true, false), patienceMs);
    const read = (bytes: Buffer) => {
      input = input.length === 0 ? bytes : Buffer.concat([input, bytes]);
      const end = endOf(input, wire.method);
      if (end === "complete") finish(false, !/^connection: *close/im.test(headIn(input) ?? ""));
      else if (input.length > MAX_BYTES) finish(false, false);
      else if (end === "open") {
        clearTimeout(stream);
        stream = setTimeout(() => finish(false, false), STREAM_MS);
      }
    };
    const left = () => finish(false, false);
    socket.on("data", read).on("close", left);
    void write(socket, wire, () => over);
  });
}

async function write(socket: Socket, wire: Wire, over: () => boolean): Promise<void> {
  socket.write(Buffer.from(wire.head ?? headOf(wire), "latin1"));
  if (!wire.body) return;
  if (!wire.slowly) {
    socket.write(wire.body);
    return;
  }
  const { piece, pauseMs } = wire.slowly;
  for (let at = 0; at < wire.body.length && !over(); at += piece) {
    socket.write(wire.body.subarray(at, at + piece));
    // The timer is unreferenced, so an abandoned body does not keep the process alive.
    await sleep(pauseMs, undefined, { ref: false });
  }
}

function headIn(input: Buffer): string | null {
  const end = input.indexOf("\r\n\r\n");
  return end < 0 ? null : input.toString("latin1", 0, end);
}

/** The final head: `100 Continue` and its like only announce it. */
function skipInformational(input: Buffer): Buffer {
  let rest = input;
  for (let head = headIn(rest); head !== null && /^HTTP\/1\.[01] 1(?!01)\d\d/.test(head); head = headIn(rest))
    rest = rest.subarray(head.length + 4);
  return rest;
}

const statusIn = (head: string): number => Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0);
const fieldIn = (head: string, name: string): string | undefined =>
  new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*$`, "im").exec(head)?.[1];

/** `open`: a body of no known length, which may never end; its first bytes are there, because a busy service may take a while. */
function endOf(whole: Buffer, method: string): "head" | "counted" | "open" | "complete" {
  const input = skipInformational(whole);
  const head = headIn(input);
  if (head === null) return "head";
  const status = statusIn(head);
  if (method === "HEAD" || status === 101 || status === 204 || status === 304) return "complete";
  const body = input.subarray(head.length + 4);
  const length = fieldIn(head, "content-length");
  if (length !== undefined) return body.length >= Number(length) ? "complete" : "counted";
  if (/chunked/i.test(fieldIn(head, "transfer-encoding") ?? ""))
    if (/(^|\r\n)0\r\n\r\n$/.test(body.toString("latin1", Math.max(0, body.length - 7)))) return "complete";
  return body.length === 0 ? "head" : "open";
}

function parsed(whole: Buffer, method: string): Omit<Reply, "ms" | "hung"> {
  const input = skipInformational(whole);
  const head = headIn(input);
  if (head === null) return { status: 0, headers: new Map(), text: "" };
  const headers = new Map<string, string>();
  for (const line of head.split("\r\n").slice(1)) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    headers.set(
      name,
      [headers.get(name), line.slice(colon + 1).trim()].filter((each) => each !== undefined).join(", "),
    );
  }
  const body = input.subarray(head.length + 4);
  const isChunked = /chunked/i.test(headers.get("transfer-encoding") ?? "");
  const sent = isChunked ? unchunked(body) : body;
  const text = method === "HEAD" ? "" : decoded(sent, headers.get("content-encoding")).toString("utf8");
  return { status: statusIn(head), headers, text };
}

function decoded(body: Buffer, encoding: string | undefined): Buffer {
  // Streams are left before their end.
  if (encoding === "gzip") return gunzipSync(body, { finishFlush: constants.Z_SYNC_FLUSH });
  if (encoding === "br") return brotliDecompressSync(body, { finishFlush: constants.BROTLI_OPERATION_FLUSH });
  return body;
}

function unchunked(body: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const end = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.toString("latin1", at, end < 0 ? at : end), 16);
    if (end < 0 || !(size > 0)) break;
    pieces.push(body.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(pieces);
}
