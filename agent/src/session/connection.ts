import type { IncomingMessage } from "node:http";
import {
  type AgentFrame,
  CLOSE,
  CONNECT_PATH,
  frameBytes,
  type Hello,
  MAX_FRAME_BYTES,
  PING,
  PONG,
  parseServiceFrame,
  type ServiceFrame,
  SUBPROTOCOL,
  type Welcome,
} from "@sallyport/agent-protocol";
import { WebSocket } from "ws";
import { error, textOf, warn } from "../log.ts";
import type { ConnectionEnd } from "./reconnect.ts";
import { connectOptions, type Transport } from "./transport.ts";

interface ConnectionOptions {
  /** The service's origin, http or https. */
  readonly service: string;
  readonly transport: Transport;
  readonly token: string;
  /** Called when the socket is open, so that the report is current. */
  readonly hello: () => Promise<Hello>;
  readonly onWelcome: (welcome: Welcome) => void;
  readonly onFrame: (frame: Exclude<ServiceFrame, Welcome>) => void;
  /** Called for a malformed `req` with a readable operation. */
  readonly onMalformed: (op: string, message: string) => void;
  /** Called with the service's clock (Unix ms) when it refuses the upgrade. */
  readonly onServiceTime: (serverTime: number) => void;
}

const HANDSHAKE_MS = 15_000;
/** Timeout of `welcome`; afterwards the service sets the silence limit. */
const WELCOME_MS = 30_000;
const MAX_RETRY_AFTER_S = 3_600;
/** Timeout of the closing handshake. */
const CLOSE_MS = 1_000;
/** WebSocket close code of a normal closure. */
const NORMAL = 1000;

/**
 * One WebSocket to the service.
 *
 *   connecting --open--> hello sent --welcome--> live --close, silence, fault--> over
 *        +-- upgrade refused or failed --------------------------------> over
 */
export class Connection {
  /** Resolves when the connection is over; never rejects. */
  readonly ended: Promise<ConnectionEnd>;
  readonly #options: ConnectionOptions;
  readonly #socket: WebSocket;
  #end!: (end: ConnectionEnd) => void;
  #welcome: { welcome: Welcome; at: number } | undefined;
  #silence: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  #over = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#socket = new WebSocket(options.service.replace(/^http/, "ws") + CONNECT_PATH, SUBPROTOCOL, {
      ...connectOptions(options.transport),
      headers: { authorization: `Bearer ${options.token}` },
      handshakeTimeout: HANDSHAKE_MS,
      followRedirects: false,
      perMessageDeflate: false,
      maxPayload: MAX_FRAME_BYTES,
    });
    this.#socket.on("unexpected-response", (_, response) => this.#refused(response));
    this.#socket.on("error", (failure) => this.#failed(failure));
    this.#socket.on("open", () => void this.#greet());
    this.#socket.on("message", (data, isBinary) => this.#received(isBinary ? undefined : data.toString()));
    this.#socket.on("close", (code, reason) => this.#closed(code, reason.toString()));
  }

  /** Frames before `welcome` are dropped: the service does not accept them. */
  send(frame: AgentFrame): void {
    if (this.#welcome) this.#write(frame);
  }

  /** Closes the connection normally, or unilaterally when the service does not respond. */
  close(because = "the agent stops"): void {
    if (this.#socket.readyState === WebSocket.CONNECTING) this.#socket.terminate();
    else this.#socket.close(NORMAL, because);
    setTimeout(() => this.#socket.terminate(), CLOSE_MS).unref();
  }

  async #greet(): Promise<void> {
    this.#expectWithin(WELCOME_MS);
    try {
      this.#write(await this.#options.hello());
    } catch (failure) {
      error("hello_failed", { message: textOf(failure) });
      this.#socket.terminate();
    }
  }

  #write(frame: AgentFrame): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    const text = JSON.stringify(frame);
    if (frameBytes(text) > MAX_FRAME_BYTES) throw new Error(`a ${frame.t} frame would have ${frameBytes(text)} bytes`);
    this.#socket.send(text);
  }

  #received(text: string | undefined): void {
    if (this.#over) return;
    this.#silence?.refresh();
    if (text === PONG) return;
    const fault = text === undefined ? "the service sent a binary frame" : this.#read(text);
    if (fault !== undefined) this.#protocolError(fault);
  }

  /** The fault of a frame; undefined without one. */
  #read(text: string): string | undefined {
    const parsed = parseServiceFrame(text);
    if (!parsed.ok && parsed.op !== undefined && this.#welcome) {
      warn("request_malformed", { op: parsed.op, message: parsed.message });
      this.#options.onMalformed(parsed.op, parsed.message);
    } else if (!parsed.ok && parsed.reason !== "unknown") return parsed.message;
    else if (!parsed.ok) warn("frame_ignored", { message: parsed.message });
    else if (parsed.frame.t === "welcome") return this.#welcomed(parsed.frame);
    else if (this.#welcome) this.#options.onFrame(parsed.frame);
    else return `${parsed.frame.t} came before welcome`;
    return undefined;
  }

  #welcomed(welcome: Welcome): string | undefined {
    if (this.#welcome) return "welcome came twice";
    this.#welcome = { welcome, at: performance.now() };
    this.#expectWithin(welcome.cfg.deadMs);
    this.#pingLater();
    this.#options.onWelcome(welcome);
    return undefined;
  }

  #pingLater(): void {
    const { pingMs = 0 } = this.#welcome?.welcome.cfg ?? {};
    this.#ping = setTimeout(
      () => {
        if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(PING);
        this.#pingLater();
      },
      pingMs * (0.8 + 0.4 * Math.random()),
    );
  }

  /** Detects half-open connections, which look open for hours. */
  #expectWithin(ms: number): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => {
      warn("service_silent", { ms });
      this.#socket.terminate();
    }, ms);
  }

  #protocolError(message: string): void {
    this.#finish({ type: "protocol", message });
    this.#socket.close(CLOSE.protocol, message.slice(0, 40));
  }

  #refused(response: IncomingMessage): void {
    const { statusCode = 0, headers } = response;
    const serverTime = Date.parse(headers.date ?? "");
    if (!Number.isNaN(serverTime)) this.#options.onServiceTime(serverTime);
    const seconds = Number(headers["retry-after"]);
    const wait = seconds >= 0 ? { retryAfterMs: Math.min(seconds, MAX_RETRY_AFTER_S) * 1000 } : {};
    this.#finish({ type: "refused", status: statusCode, ...wait });
    this.#socket.terminate();
  }

  #failed(failure: Error): void {
    const tooLarge = "code" in failure && failure.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
    if (tooLarge) this.#protocolError(`the service sent a frame of more than ${MAX_FRAME_BYTES} bytes`);
    else if (this.#socket.readyState === WebSocket.OPEN || this.#welcome)
      warn("socket_failed", { message: failure.message });
    else this.#finish({ type: "failed", message: failure.message });
  }

  #closed(code: number, reason: string): void {
    const healthyMs = this.#welcome ? performance.now() - this.#welcome.at : 0;
    this.#finish({ type: "closed", code, reason, healthyMs });
  }

  #finish(end: ConnectionEnd): void {
    this.#over = true;
    clearTimeout(this.#silence);
    clearTimeout(this.#ping);
    this.#end(end);
  }
}
