import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The HTTP server of every double: a free or named port of loopback. */

export interface Loopback {
  /** The base URL, without a trailing slash. */
  readonly url: string;
  close(): Promise<void>;
}

/** A request as it arrived; header names in lower case. */
export interface Received {
  readonly method: string;
  readonly url: URL;
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Starts a server. A defect of `serve` is printed, and answered with 500 where nothing was answered yet. */
export async function startLoopback(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => unknown,
  port = 0,
): Promise<Loopback> {
  const server = createServer(async (incoming, outgoing) => {
    try {
      await serve(incoming, outgoing);
    } catch (defect) {
      console.error("defect in a double:", incoming.method, incoming.url, defect);
      if (outgoing.headersSent) incoming.socket.destroy();
      else outgoing.writeHead(500, { "content-type": "text/plain" }).end("defect in the double");
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The body of a request, without the part beyond `mostBytes`. */
export async function bodyOf(incoming: IncomingMessage, mostBytes = Number.POSITIVE_INFINITY): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= mostBytes) chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export async function received(incoming: IncomingMessage, mostBytes?: number): Promise<Received> {
  const { method = "", url: target = "" } = incoming;
  const headers = Object.fromEntries(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]));
  return { method, target, url: new URL(target, "http://double"), headers, body: await bodyOf(incoming, mostBytes) };
}
