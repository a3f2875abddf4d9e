/**
 * The public port of `npm start`. workerd refuses verbs it does not know, LIST among them, before any Worker code runs,
 * and so does Node's HTTP parser. This front reads just enough HTTP/1.1 to find each request line, turns
 * `LIST /path?q` into `GET /path?list=true&q`, and passes everything else, in both directions, byte for byte.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import {
  type Body,
  type Head,
  lists,
  Malformed,
  MessageReader,
  NO_BODY,
  requestBody,
  requestLine,
  responseBody,
  responseStatus,
} from "./http-framing.ts";

/** How long a client may take to read our last words before the connection is cut. */
const LINGER_MS = 1000;
/** Input that waits for its turn; beyond this the client is not read. */
const MAX_WAITING_BYTES = 64 * 1024;
/** How long a client may pause within a request, and how long its head may take in all. */
const STALL_MS = 60_000;
const REASONS = {
  400: "Bad Request",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
  501: "Not Implemented",
  502: "Bad Gateway",
} as const;

export function createGateway(upstreamPort: number, { stallMs = STALL_MS } = {}): Server {
  return createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    new Connection(client, upstreamPort, stallMs);
  });
}

/** A request and its answer. */
interface Exchange {
  method: string;
  /** The client offers to leave HTTP behind; the answer says whether that happens. */
  mayLeaveHttp: boolean;
  sent: boolean;
  answer: "awaited" | "begun" | "complete";
}

/**
 * One client connection and its one upstream connection. Exchanges are one at a time: the next request is not read before
 * the last is answered. So a refusal never overtakes an answer, and after an upgrade request it is known whether
 * what follows is still HTTP.
 */
class Connection {
  readonly #client: Socket;
  readonly #upstreamPort: number;
  readonly #stallMs: number;
  /** Runs while a request has begun and is not all there. */
  #stall: NodeJS.Timeout | undefined;
  #upstream: Socket | undefined;
  #exchange: Exchange | undefined;
  #answered = 0;
  /** HTTP is over by an upgrade: bytes are carried, nothing is read in them. */
  #tunnel = false;
  /** The last word has been said: what still arrives is dropped. */
  #leaving = false;
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

  constructor(client: Socket, upstreamPort: number, stallMs: number) {
    this.#client = client;
    this.#upstreamPort = upstreamPort;
    this.#stallMs = stallMs;
    client.on("data", (bytes) => this.#fromClient(bytes));
    client.on("end", () => {
      this.#clientEnded = true;
      this.#advance();
    });
    client.on("drain", () => this.#upstream?.resume());
    // A reset, because workerd takes no notice of a plain end until its next write.
    client.on("error", () => this.#upstream?.resetAndDestroy());
    client.on("close", () => {
      clearTimeout(this.#stall);
      if (!this.#clientEnded) this.#upstream?.resetAndDestroy();
    });
  }

  #fromClient(bytes: Buffer): void {
    if (this.#leaving) return;
    this.#waiting = this.#waiting.length === 0 ? bytes : Buffer.concat([this.#waiting, bytes]);
    this.#advance();
    // A client that must wait is still read, up to a limit: otherwise its departure would go unnoticed.
    if (this.#waiting.length > MAX_WAITING_BYTES) this.#client.pause();
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
    // A client that sends no more may still be reading: only this direction ends.
    if (this.#upstream) this.#upstream.end();
    else this.#leave();
  }

  #readRequest(input: Buffer): void {
    const { rest, ended } = this.#requests.read(input);
    this.#waiting = rest;
    this.#watch(ended);
    if (!ended || !this.#exchange) return;
    this.#exchange.sent = true;
    this.#settle();
  }

  /** A head has one deadline, whatever comes of it meanwhile; each piece of a body has one of its own. */
  #watch(ended: boolean): void {
    if (ended || this.#exchange) clearTimeout(this.#stall);
    if (ended || this.#tunnel) this.#stall = undefined;
    else if (this.#exchange || !this.#stall) this.#stall = setTimeout(() => this.#stalled(), this.#stallMs);
  }

  #stalled(): void {
    this.#stall = undefined;
    // Who was told to wait is not late.
    if (this.#client.isPaused()) this.#watch(false);
    else if (!this.#leaving) this.#refuse(new Malformed(408, "the request did not arrive in time"));
  }

  #beginRequest(head: Head): Body {
    const { method, target, minor } = requestLine(head);
    const body = requestBody(head, minor);
    const upgrades = lists(head, "connection", "upgrade") && head.fields.has("upgrade");
    this.#exchange = { method, mayLeaveHttp: upgrades, sent: false, answer: "awaited" };
    this.#upstream ??= this.#connect();
    this.#toUpstream(method === "LIST" ? withStartLine(head, `GET ${listing(target)} HTTP/1.${minor}`) : head.raw);
    return body;
  }

  #toUpstream(bytes: Buffer): void {
    if (this.#upstream?.write(bytes) === false) this.#client.pause();
  }

  #connect(): Socket {
    const upstream = connect({ port: this.#upstreamPort, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
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
  }

  #beginAnswer(head: Head): Body {
    const status = responseStatus(head);
    this.#toClient(head.raw);
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
  }

  #toClient(bytes: Buffer): void {
    if (!this.#client.write(bytes)) this.#upstream?.pause();
  }

  #upstreamEnded(): void {
    if (this.#leaving) return;
    if (this.#tunnel) this.#client.end();
    else if (this.#neverAnswered()) this.#leave(502, "the service closed the connection without an answer");
    else this.#leave();
  }

  #upstreamFailed(): void {
    if (this.#leaving) return;
    if (this.#neverAnswered()) this.#leave(502, "the service is not reachable");
    // A reset, so that nobody takes half an answer for a whole one.
    else if (this.#tunnel || this.#exchange?.answer === "begun") this.#client.resetAndDestroy();
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
    if (this.#exchange?.answer === "begun") this.#client.resetAndDestroy();
    else if (this.#exchange?.answer === "complete") this.#leave();
    else this.#leave(failure.status, failure.message);
  }

  /** Says a last word, if there is one, and closes once the client had time to read it: unread input would reset it away. */
  #leave(status?: keyof typeof REASONS, text = ""): void {
    this.#leaving = true;
    this.#upstream?.destroy();
    if (status) this.#client.write(plainAnswer(status, this.#exchange?.method === "HEAD" ? "" : `${text}\n`));
    this.#client.end();
    this.#client.resume();
    setTimeout(() => this.#client.destroy(), LINGER_MS).unref();
  }
}

function listing(target: string): string {
  const [, path, query] = /^([^?]*)\??(.*)$/.exec(target) ?? [];
  return `${path}?list=true${query ? `&${query}` : ""}`;
}

function withStartLine(head: Head, startLine: string): Buffer {
  return Buffer.concat([Buffer.from(startLine, "latin1"), head.raw.subarray(head.startLine.length)]);
}

function plainAnswer(status: keyof typeof REASONS, text: string): string {
  return [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
    "Connection: close",
    "",
    text,
  ].join("\r\n");
}
