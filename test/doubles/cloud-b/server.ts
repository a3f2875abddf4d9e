import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Answer, Received } from "./login.ts";

/** Null: the connection has been dropped. */
export type Handler = (request: Received, incoming: IncomingMessage) => Promise<Answer | null>;

const maxBodyBytes = 256 * 1024;

/** The loopback servers of one double. */
export class Listeners {
  readonly #servers: Server[] = [];

  /** @returns the server's URL, without a trailing slash. Port 0 is any free one. */
  async listen(port: number, answer: Handler): Promise<string> {
    const server = createServer((incoming, outgoing) => {
      receive(incoming)
        .then((request) => answer(request, incoming))
        .then((answered) => answered && send(outgoing, answered))
        .catch((defect: unknown) => {
          console.error("cloud-b double:", defect);
          if (!outgoing.headersSent) send(outgoing, { status: 500, body: "defect in the double" });
        });
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    this.#servers.push(server);
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const server of this.#servers) server.closeAllConnections();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

async function receive(incoming: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= maxBodyBytes) chunks.push(chunk);
  }
  const headers = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]);
  const { method = "", url: target = "" } = incoming;
  return { method, target, headers: Object.fromEntries(headers), body: Buffer.concat(chunks) };
}

/** A body that is a text is sent as it is. */
function send(outgoing: ServerResponse, { status, body, headers = {} }: Answer): void {
  const json = typeof body !== "string" && body !== undefined;
  outgoing.writeHead(status, {
    ...(json ? { "content-type": "application/json; charset=utf-8" } : { "content-type": "text/plain" }),
    "x-ms-request-id": crypto.randomUUID(),
    "cache-control": "no-cache",
    ...headers,
  });
  outgoing.end(json ? JSON.stringify(body) : body);
}
