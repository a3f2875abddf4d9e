import * as http from "node:http";
import * as https from "node:https";

export interface TlsFiles {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly servername?: string;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** A header's value; empty without one. */
  header(name: string): string;
}

interface Sent {
  readonly method?: "GET" | "PUT";
  readonly body?: string;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** Time for a whole request, except a stream. */
const REQUEST_MS = 120_000;

/** Requests to one server with its token. Connections are reused. */
export class HttpClient {
  readonly #base: URL;
  readonly #headers: http.OutgoingHttpHeaders;
  readonly #agent: http.Agent;

  constructor(base: URL, headers: http.OutgoingHttpHeaders, tls: TlsFiles = {}) {
    this.#base = base;
    this.#headers = headers;
    const options = { keepAlive: true, maxSockets: 32, ...tls };
    this.#agent = base.protocol === "https:" ? new https.Agent(options) : new http.Agent(options);
  }

  /** Rejects when no complete answer arrives. */
  async request(path: string, { timeoutMs = REQUEST_MS, signal, ...sent }: Sent = {}): Promise<Answer> {
    const timeout = AbortSignal.timeout(timeoutMs);
    const response = await this.#send(path, { ...sent, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    return {
      status: response.statusCode ?? 0,
      text: Buffer.concat(chunks).toString(),
      header: (name) => String(response.headers[name] ?? ""),
    };
  }

  /** An open response; its body is not read. */
  stream(path: string, signal: AbortSignal): Promise<http.IncomingMessage> {
    return this.#send(path, { signal });
  }

  #send(path: string, { method = "GET", body, signal }: Sent): Promise<http.IncomingMessage> {
    const { request } = this.#base.protocol === "https:" ? https : http;
    const options: http.RequestOptions = {
      method,
      agent: this.#agent,
      ...(signal && { signal }),
      headers: {
        ...this.#headers,
        ...(body !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
      },
    };
    return new Promise((resolve, reject) => {
      request(new URL(path, this.#base), options, resolve).on("error", reject).end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
