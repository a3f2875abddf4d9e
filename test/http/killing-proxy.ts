import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Service } from "./events-service.ts";

/** The treatment of a request: forwarded, or the program that sent it is killed before the request or its answer arrives. */
export type Fate = "pass" | "kill before" | "kill after";

export interface Write {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Forwards requests of a program to the service. Everything but GET is a write, at which the program can be killed. */
export class KillingProxy {
  fate: (write: Write) => Fate | Promise<Fate> = () => "pass";
  /** Kills the program, and resolves when it has ended. */
  kill: () => Promise<unknown> = async () => undefined;
  writes = 0;
  #url = "";
  readonly #service: Service;
  readonly #server = createServer((request, response) => {
    void this.#pass(request).then(
      (answer) => {
        if (answer === null) return response.destroy();
        response.writeHead(answer.status, answer.headers);
        response.end(answer.body);
      },
      () => response.destroy(),
    );
  });

  constructor(service: Service) {
    this.#service = service;
  }

  get url(): string {
    return this.#url;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.#url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #pass(request: IncomingMessage) {
    const { method = "GET", url = "" } = request;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const isWrite = method !== "GET";
    if (isWrite) this.writes += 1;
    const fate = isWrite ? await this.fate({ method, url, headers: request.headers, body: body.toString() }) : "pass";
    if (fate === "kill before") return this.#killed();
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const answer = await fetch(this.#service.base + url, {
      method,
      headers: Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]),
      ...(isWrite && { body }),
    });
    const text = await answer.text();
    if (fate === "kill after") return this.#killed();
    const shown = [...answer.headers].filter(([name]) => /^(content-type|retry-after|x-)/.test(name));
    return { status: answer.status, headers: Object.fromEntries(shown), body: text };
  }

  async #killed(): Promise<null> {
    await this.kill();
    return null;
  }
}
