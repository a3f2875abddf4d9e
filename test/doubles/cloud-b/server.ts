import type { IncomingMessage, ServerResponse } from "node:http";
import { type Loopback, received, startLoopback } from "../loopback.ts";
import type { Answer, Received } from "./login.ts";

/** Null: the connection has been dropped. */
export type Handler = (request: Received, incoming: IncomingMessage) => Promise<Answer | null>;

const maxBodyBytes = 256 * 1024;

/** The loopback servers of one double. */
export class Listeners {
  readonly #servers: Loopback[] = [];

  /** @returns the server's URL, without a trailing slash. Port 0 is any free one. */
  async listen(port: number, answer: Handler): Promise<string> {
    const server = await startLoopback(async (incoming, outgoing) => {
      const answered = await answer(await received(incoming, maxBodyBytes), incoming);
      if (answered) send(outgoing, answered);
    }, port);
    this.#servers.push(server);
    return server.url;
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }
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
