/** One client connection of the local gateway, and its one upstream connection. */
import { connect, type Socket } from "node:net";
import { checkedHead, isEventStream } from "./gateway-rules.ts";
import {
  type Body,
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

/** Time that a client has to read the last words of a connection before it is cut. */
const LINGER_MS = 1000;
/** Input that waits for its turn; beyond this the client is not read. */
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
  /** Longest time in which a client takes nothing of an answer that waits for it. */
  readonly writeMs: number;
}

/** The gateway as its connections see it. */
export interface Surroundings {
  readonly times: Times;
  /** Null while the runtime is down. */
  readonly upstreamPort: number | null;
  idle(connection: Connection): void;
  busy(connection: Connection): void;
  closed(connection: Connection): void;
}

/** A request and its answer. */
interface Exchange {
  method: string;
  /** The client offers to leave HTTP behind; the answer says whether that happens. */
  mayLeaveHttp: boolean;
  isEventStream: boolean;
  sent: boolean;
  answer: "awaited" | "begun" | "complete";
}

/**
 * Exchanges are one at a time: the next request is not read before the last is answered. So a refusal never overtakes an
 * answer, and after an upgrade request it is known whether what follows is still HTTP.
 */
export class Connection {
  readonly #client: Socket;
  readonly #gateway: Surroundings;
  /** Limits the time for the next part of a request. */
  #deadline: NodeJS.Timeout | undefined;
  /** A head has begun. */
  #inHead = false;
  /** Runs while the client takes nothing. */
  #writing: NodeJS.Timeout | undefined;
  #upstream: Socket | undefined;
  #isConnected = false;
  #exchange: Exchange | undefined;
  #answered = 0;
  /** HTTP is over by an upgrade: bytes are carried, nothing is read in them. */
  #tunnel = false;
  /** The last word has been said: what still arrives is dropped. */
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

  /** Ends the connection as soon as no answer is cut by it; a stream of events ends whole, after its newest line. */
  drain(): void {
    this.#draining = true;
    if (!this.#exchange && !this.#tunnel) this.#leave();
    else this.#endStream();
  }

  /** Closes a connection that has no request under way. */
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
    // A client that must wait is still read, up to a limit: otherwise its departure would go unnoticed.
    if (this.#waiting.length > MAX_WAITING_BYTES) this.#client.pause();
  }

  /**
   * The end of the client's direction is no end of the other: answers are still sent. A stream of events has no end of its
   * own, so its client counts as gone, as with Go's server.
   */
  #clientHasEnded(): void {
    this.#clientEnded = true;
    if (this.#exchange?.isEventStream && !this.#tunnel) this.#client.destroy();
    else this.#advance();
  }

  /** The client is gone. workerd takes no notice of a plain end until its next write. */
  #abandon(): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#writing);
    if (this.#upstream) abort(this.#upstream);
  }

  /** Sends on whatever may be sent by now. */
  #advance(): void {
    if (this.#leaving) return;
    try {
      while (this.#waiting.length > 0 && (this.#tunnel || !this.#exchange?.sent)) {
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
    else if (!this.#exchange?.sent) this.#leave();
  }

  #readRequest(input: Buffer): void {
    const { rest, ended } = this.#requests.read(input);
    this.#waiting = rest;
    this.#watch(ended);
    if (!ended || !this.#exchange) return;
    this.#exchange.sent = true;
    this.#settle();
  }

  /** A head has one deadline, however steadily it arrives; each piece of a body has one of its own. */
  #watch(ended: boolean): void {
    const { headMs, stallMs } = this.#gateway.times;
    if (ended || this.#tunnel) this.#await(0);
    else if (this.#exchange) this.#await(stallMs);
    else if (!this.#inHead) this.#await(headMs);
    this.#inHead = !ended && !this.#exchange;
  }

  /** Gives the client so long for its next part; 0: any time. */
  #await(ms: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = ms > 0 ? setTimeout(() => this.#late(), ms) : undefined;
  }

  #late(): void {
    if (this.#leaving) return;
    // A client that was told to wait is not late.
    if (this.#client.isPaused()) this.#await(this.#gateway.times.stallMs);
    else if (this.#exchange || this.#inHead) this.#refuse(new Malformed(408, "the request did not arrive in time"));
    else this.#leave();
  }

  #beginRequest(head: Head): Body {
    const { method, target, minor } = requestLine(head);
    const checked = checkedHead(head, target);
    const body = requestBody(head, minor);
    const upgrades = lists(head, "connection", "upgrade") && head.fields.has("upgrade");
    const { upstreamPort } = this.#gateway;
    if (!this.#upstream && upstreamPort === null) throw new Malformed(503, "the service is starting; try again");
    this.#exchange = {
      ...{ method, mayLeaveHttp: upgrades, isEventStream: isEventStream(target) },
      ...{ sent: false, answer: "awaited" },
    };
    this.#gateway.busy(this);
    this.#upstream ??= this.#connect(upstreamPort ?? 0);
    const startLine = method === "LIST" ? `GET ${listing(target)} HTTP/1.${minor}` : head.startLine;
    this.#toUpstream(headBytes({ startLine, lines: checked.lines }));
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
    this.#toClient(headBytes(head));
    const exchange = this.#exchange;
    if (exchange?.mayLeaveHttp && status === 101) {
      this.#tunnel = true;
      return NO_BODY;
    }
    // 100 Continue and its like announce the answer; they are not it.
    if (exchange && status >= 200) exchange.answer = "begun";
    return responseBody(head, status, exchange?.method ?? "GET");
  }

  #endAnswer(): void {
    if (this.#exchange?.answer === "begun") this.#exchange.answer = "complete";
    this.#settle();
    this.#client.resume();
    this.#advance();
  }

  /** A server may answer before it has the whole request: an exchange is over when both are through. */
  #settle(): void {
    if (!this.#exchange?.sent || this.#exchange.answer !== "complete") return;
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

  /** Ends a stream of events that is between two lines; others end at their next line. */
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
    // Nothing has reached the service.
    if (!this.#isConnected) this.#leave(503, "the service is not reachable; try again");
    else if (this.#neverAnswered()) this.#leave(502, "the service closed the connection without an answer");
    // A reset, because an end would make half an answer look whole.
    else if (this.#tunnel || this.#exchange?.answer === "begun") abort(this.#client);
    else this.#leave();
  }

  /**
   * Only the first request on a connection gets a 502. Later, a server that closes an idle connection looks the same
   * as one that died, and a client whose connection just ends knows that it may repeat what is safe to repeat.
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

  /** Says a last word, if there is one, and closes once the client had time to read it: unread input would reset it away. */
  #leave(status?: Status, text = ""): void {
    this.#leaving = true;
    clearTimeout(this.#deadline);
    this.#gateway.busy(this);
    // A reset, so that no port waits for late packets: there are only so many.
    if (this.#upstream) abort(this.#upstream);
    if (status) this.#client.write(plainAnswer(status, this.#exchange?.method === "HEAD" ? "" : `${text}\n`));
    this.#client.end();
    this.#client.resume();
    setTimeout(() => this.#client.destroy(), LINGER_MS).unref();
  }
}

/** Resets a connection. libuv does not reset one whose end is under way, and leaves it open: that one is closed. */
function abort(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

function listing(target: string): string {
  const [, path, query] = /^([^?]*)\??(.*)$/.exec(target) ?? [];
  return `${path}?list=true${query ? `&${query}` : ""}`;
}

/** An answer of the gateway itself, after which the connection ends. */
export function plainAnswer(status: Status, text: string): string {
  return [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
    ...(status === 503 ? ["Retry-After: 1"] : []),
    "Connection: close",
    "",
    text,
  ].join("\r\n");
}
