/** One client connection of the local gateway, and its one upstream connection. */
import { connect, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { GATEWAY_KEY_HEADER } from "../src/platform/http/gateway-key.ts";
import type { Forwarding } from "./forwarding.ts";
import { checkedHead, isEventStream } from "./gateway-rules.ts";
import {
  type Body,
  datedHead,
  dateLine,
  type Head,
  headBytes,
  lists,
  Malformed,
  MessageReader,
  NO_BODY,
  requestBody,
  requestLine,
  responseBody,
  responseStatus,
} from "./http-framing.ts";

/** Time for a client to read the last response before its connection is cut. */
const LINGER_MS = 1000;
/**
 * How long after its request an answer is still awaited for a client that has closed its side. A program that sends its
 * requests and closes at once (`nc -N`) reads answers; one that closes later (Ctrl-C, a time limit) has left.
 */
const HALF_CLOSED_MS = 500;
/** Limit of buffered input; above it the client is not read. */
const MAX_WAITING_BYTES = 64 * 1024;
const LAST_CHUNK = "0\r\n\r\n";
const REASONS = {
  400: "Bad Request",
  404: "Not Found",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
} as const;
type Status = keyof typeof REASONS;

export interface Times {
  /** From the first byte of a request to the end of its head; also from the connection to its first byte. */
  readonly headMs: number;
  /** Longest pause within a request's body. */
  readonly stallMs: number;
  /** Longest pause between two requests of a connection. */
  readonly idleMs: number;
  /** Maximum time without a read by the client while a response is pending. */
  readonly writeMs: number;
}

/** The part of the gateway that connections use. */
export interface Surroundings {
  readonly times: Times;
  /** Null while the runtime is down. */
  readonly upstreamPort: number | null;
  /** Absent: the service sees the gateway as its client. */
  readonly forwarding: Forwarding | undefined;
  /** Absent: the runtime believes every local process. */
  readonly upstreamKey: string | undefined;
  idle(connection: Connection): void;
  busy(connection: Connection): void;
  closed(connection: Connection): void;
}

/** A request and its answer. */
interface Exchange {
  method: string;
  /** The client requests an upgrade; the response decides. */
  mayLeaveHttp: boolean;
  isEventStream: boolean;
  /** When the whole request was sent to the runtime, by `performance.now`; null: not yet. */
  sentAt: number | null;
  answer: "awaited" | "begun" | "complete";
}

/**
 * Exchanges are sequential: the next request is read after the response to the last one. So an error never overtakes a
 * response, and after an upgrade request the protocol of the following bytes is known.
 */
export class Connection {
  readonly #client: Socket;
  /** Of the client; kept, because a closed socket has none. */
  readonly #peer: string;
  readonly #gateway: Surroundings;
  /** Limits the time for the next part of a request. */
  #deadline: NodeJS.Timeout | undefined;
  /** A head has begun. */
  #inHead = false;
  /** Runs while the client does not read. */
  #writing: NodeJS.Timeout | undefined;
  #upstream: Socket | undefined;
  #isConnected = false;
  #exchange: Exchange | undefined;
  #answered = 0;
  /** After an upgrade, bytes are forwarded without parsing. */
  #tunnel = false;
  /** The last response was sent: further input is dropped. */
  #leaving = false;
  #draining = false;
  #clientEnded = false;
  #waiting: Buffer = Buffer.alloc(0);
  readonly #requests = new MessageReader({
    head: (head) => this.#beginRequest(head),
    body: (bytes) => this.#toUpstream(bytes),
  });
  readonly #responses = new MessageReader({
    head: (head) => this.#beginAnswer(head),
    body: (bytes) => this.#toClient(bytes),
  });

  constructor(client: Socket, gateway: Surroundings) {
    this.#client = client;
    this.#peer = client.remoteAddress ?? "";
    this.#gateway = gateway;
    client.on("data", (bytes) => this.#fromClient(bytes));
    client.on("end", () => this.#clientHasEnded());
    client.on("drain", () => {
      clearTimeout(this.#writing);
      this.#writing = undefined;
      this.#upstream?.resume();
    });
    client.on("error", () => this.#abandon());
    client.on("close", () => {
      this.#abandon();
      gateway.closed(this);
    });
    gateway.idle(this);
    this.#await(gateway.times.headMs);
  }

  /** Ends the connection without cutting a response; an event stream ends after its newest complete line. */
  drain(): void {
    this.#draining = true;
    if (!this.#exchange && !this.#tunnel) this.#leave();
    else this.#endStream();
  }

  /** Whether it carries another protocol after an upgrade, which ends with the service only. */
  get isTunnel(): boolean {
    return this.#tunnel;
  }

  /** Closes a connection without a running request. */
  evict(): void {
    if (!this.#exchange && !this.#tunnel) this.#leave();
  }

  destroy(): void {
    abort(this.#client);
  }

  #fromClient(bytes: Buffer): void {
    if (this.#leaving) return;
    this.#waiting = this.#waiting.length === 0 ? bytes : Buffer.concat([this.#waiting, bytes]);
    this.#advance();
    // A waiting client is still read, up to a limit, to detect that it disconnects.
    if (this.#waiting.length > MAX_WAITING_BYTES) this.#client.pause();
  }

  /** After a half-close by the client, only answers that come at once are still sent. */
  #clientHasEnded(): void {
    this.#clientEnded = true;
    this.#advance();
    this.#leftBehind();
  }

  /**
   * Ends the request of a client that has closed its side, as nginx and Node do, so that no work goes on without a
   * caller. An answer that has begun continues until it meets a closed socket. An event stream never ends by itself, so
   * its client counts as gone at once.
   */
  #leftBehind(): void {
    const { isEventStream: isStream, sentAt = null, answer } = this.#exchange ?? {};
    if (!this.#clientEnded || this.#tunnel || this.#leaving) return;
    if (isStream) this.#client.destroy();
    if (sentAt === null || answer !== "awaited") return;
    const left = sentAt + HALF_CLOSED_MS - performance.now();
    if (left > 0) this.#await(left);
    else this.#client.destroy();
  }

  /** The client has disconnected. workerd detects a plain close only at its next write. */
  #abandon(): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#writing);
    if (this.#upstream) abort(this.#upstream);
  }

  /** Forwards all pending data. */
  #advance(): void {
    if (this.#leaving) return;
    try {
      while (this.#waiting.length > 0 && (this.#tunnel || !this.#isSent)) {
        const input = this.#waiting;
        this.#waiting = Buffer.alloc(0);
        if (this.#tunnel) this.#toUpstream(input);
        else this.#readRequest(input);
      }
    } catch (failure) {
      this.#refuse(failure);
      return;
    }
    if (!this.#clientEnded || this.#waiting.length > 0) return;
    if (this.#tunnel) this.#upstream?.end();
    // The upstream connection stays whole until the answer is there: one that is half closed cannot be reset.
    else if (!this.#isSent) this.#leave();
  }

  /** Whether the runtime has the whole request. */
  get #isSent(): boolean {
    return (this.#exchange?.sentAt ?? null) !== null;
  }

  #readRequest(input: Buffer): void {
    const { rest, ended } = this.#requests.read(input);
    this.#waiting = rest;
    this.#watch(ended);
    if (!ended || !this.#exchange) return;
    this.#exchange.sentAt = performance.now();
    this.#settle();
    this.#leftBehind();
  }

  /** A head has one deadline in total, a body one per piece. */
  #watch(ended: boolean): void {
    const { headMs, stallMs } = this.#gateway.times;
    if (ended || this.#tunnel) this.#await(0);
    else if (this.#exchange) this.#await(stallMs);
    else if (!this.#inHead) this.#await(headMs);
    this.#inHead = !ended && !this.#exchange;
  }

  /** Limits the time for the client's next part; 0: no limit. */
  #await(ms: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = ms > 0 ? setTimeout(() => this.#late(), ms) : undefined;
  }

  #late(): void {
    if (this.#leaving) return;
    if (this.#clientEnded && this.#isSent) {
      this.#leftBehind();
      return;
    }
    // A client that was asked to wait is not late.
    if (this.#client.isPaused()) this.#await(this.#gateway.times.stallMs);
    else if (this.#exchange || this.#inHead) this.#refuse(new Malformed(408, "the request did not arrive in time"));
    else this.#leave();
  }

  #beginRequest(head: Head): Body {
    const { method, target, minor } = requestLine(head);
    const origin = this.#gateway.forwarding?.origin(this.#peer, this.#client instanceof TLSSocket, head);
    const { lines } = checkedHead(head, target, origin);
    const body = requestBody(head, minor);
    const upgrades = lists(head, "connection", "upgrade") && head.fields.has("upgrade");
    const { upstreamPort, upstreamKey } = this.#gateway;
    if (!this.#upstream && upstreamPort === null) throw new Malformed(503, "the service is starting; try again");
    this.#exchange = {
      method,
      mayLeaveHttp: upgrades,
      isEventStream: isEventStream(target),
      sentAt: null,
      answer: "awaited",
    };
    this.#gateway.busy(this);
    this.#upstream ??= this.#connect(upstreamPort ?? 0);
    const flag = FLAG_OF_VERB.get(method);
    const startLine = flag === undefined ? head.startLine : `GET ${withFlag(target, flag)} HTTP/1.${minor}`;
    const key = upstreamKey === undefined ? [] : [`${GATEWAY_KEY_HEADER}: ${upstreamKey}`];
    this.#toUpstream(headBytes({ startLine, lines: [...lines, ...key] }));
    return body;
  }

  #toUpstream(bytes: Buffer): void {
    if (this.#upstream?.write(bytes) === false) this.#client.pause();
  }

  #connect(port: number): Socket {
    const upstream = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    upstream.on("connect", () => {
      this.#isConnected = true;
    });
    upstream.on("data", (bytes) => this.#fromUpstream(bytes));
    upstream.on("end", () => this.#upstreamEnded());
    upstream.on("drain", () => this.#client.resume());
    upstream.on("error", () => this.#upstreamFailed());
    return upstream;
  }

  #fromUpstream(bytes: Buffer): void {
    if (this.#leaving) return;
    let input = bytes;
    try {
      while (input.length > 0 && !this.#tunnel) {
        const { rest, ended } = this.#responses.read(input);
        input = rest;
        if (ended) this.#endAnswer();
      }
    } catch {
      this.#upstreamFailed();
      return;
    }
    if (input.length > 0) this.#toClient(input);
    if (this.#draining) this.#endStream();
  }

  #beginAnswer(head: Head): Body {
    const status = responseStatus(head);
    this.#toClient(headBytes(status < 200 ? head : datedHead(head)));
    const exchange = this.#exchange;
    if (exchange?.mayLeaveHttp && status === 101) {
      this.#tunnel = true;
      return NO_BODY;
    }
    // Interim responses such as 100 Continue precede the final one.
    if (exchange && status >= 200) exchange.answer = "begun";
    return responseBody(head, status, exchange?.method ?? "GET");
  }

  #endAnswer(): void {
    if (this.#exchange?.answer === "begun") this.#exchange.answer = "complete";
    this.#settle();
    this.#client.resume();
    this.#advance();
  }

  /** A server may respond before it has the whole request: an exchange ends when both are complete. */
  #settle(): void {
    if (!this.#isSent || this.#exchange?.answer !== "complete") return;
    this.#exchange = undefined;
    this.#answered += 1;
    if (this.#draining) {
      this.#leave();
      return;
    }
    this.#gateway.idle(this);
    this.#await(this.#gateway.times.idleMs);
  }

  #toClient(bytes: Buffer): void {
    if (this.#client.write(bytes)) return;
    this.#upstream?.pause();
    this.#writing ??= setTimeout(() => abort(this.#client), this.#gateway.times.writeMs);
  }

  /** Ends an event stream between two lines; others end at their next line. */
  #endStream(): void {
    const { isEventStream: isStream, answer } = this.#exchange ?? {};
    if (this.#leaving || !isStream || answer !== "begun" || !this.#responses.isAtLineEnd) return;
    this.#client.write(LAST_CHUNK);
    this.#leave();
  }

  #upstreamEnded(): void {
    if (this.#leaving) return;
    if (this.#tunnel) this.#client.end();
    else if (this.#neverAnswered()) this.#leave(502, "the service closed the connection without an answer");
    else this.#leave();
  }

  #upstreamFailed(): void {
    if (this.#leaving) return;
    // The service has received nothing.
    if (!this.#isConnected) this.#leave(503, "the service is not reachable; try again");
    else if (this.#neverAnswered()) this.#leave(502, "the service closed the connection without an answer");
    // A reset, because a close would make a partial response look complete.
    else if (this.#tunnel || this.#exchange?.answer === "begun") abort(this.#client);
    else this.#leave();
  }

  /**
   * Only the first request on a connection gets a 502. Later, a server that closes an idle connection looks the same
   * as one that crashed, and a client whose connection closes may repeat safe requests.
   */
  #neverAnswered(): boolean {
    return this.#exchange?.answer === "awaited" && this.#answered === 0;
  }

  #refuse(failure: unknown): void {
    if (!(failure instanceof Malformed)) throw failure;
    if (this.#exchange?.answer === "begun") abort(this.#client);
    else if (this.#exchange?.answer === "complete") this.#leave();
    else this.#leave(failure.status, failure.message);
  }

  /**
   * Sends a last response, if any, and closes after the client had time to read it, because unread input causes a
   * reset.
   */
  #leave(status?: Status, text = ""): void {
    this.#leaving = true;
    clearTimeout(this.#deadline);
    this.#gateway.busy(this);
    // A reset, so that no port stays in TIME_WAIT.
    if (this.#upstream) abort(this.#upstream);
    if (status) this.#client.write(plainAnswer(status, this.#exchange?.method === "HEAD" ? "" : `${text}\n`));
    this.#client.end();
    this.#client.resume();
    setTimeout(() => this.#client.destroy(), LINGER_MS).unref();
  }
}

/**
 * Resets a connection. libuv does not reset one that is closing and leaves it open, so that one is destroyed; a TLS
 * connection has no reset, and one without its closing message counts as cut.
 */
function abort(socket: Socket): void {
  if (socket.writableEnded || socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

/** The query parameters that stand for verbs which the runtime refuses. */
const FLAG_OF_VERB: ReadonlyMap<string, string> = new Map([
  ["LIST", "list"],
  ["SCAN", "scan"],
]);

function withFlag(target: string, flag: string): string {
  const [, path, query] = /^([^?]*)\??(.*)$/.exec(target) ?? [];
  return `${path}?${flag}=true${query ? `&${query}` : ""}`;
}

/** A response of the gateway itself, after which the connection closes. */
export function plainAnswer(status: Status, text: string): string {
  return [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    dateLine(),
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
    ...(status === 503 ? ["Retry-After: 1"] : []),
    "Connection: close",
    "",
    text,
  ].join("\r\n");
}
