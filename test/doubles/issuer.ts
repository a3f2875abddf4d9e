import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

interface Document {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** A token issuer: it serves the documents that tests put at its paths, and counts the requests for each. */
export async function startIssuer(): Promise<{ url: string; close: () => Promise<void> }> {
  const documents = new Map<string, Document>();
  const requests = new Map<string, { count: number; body: string; authorization: string }>();

  /** The answer to one request. `PUT` sets a document, `GET /_double/requests/…` reads its requests. */
  async function answer(request: IncomingMessage): Promise<Document> {
    const path = request.url ?? "/";
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    const headers = { "content-type": "application/json" };
    if (request.method === "PUT") {
      documents.set(path, { status: 200, headers, ...JSON.parse(body) });
      return { status: 204, headers, body: "" };
    }
    const counted = path.replace(/^\/_double\/requests/, "");
    if (counted !== path) {
      return { status: 200, headers, body: JSON.stringify(requests.get(counted) ?? { count: 0 }) };
    }
    const { authorization = "" } = request.headers;
    requests.set(path, { count: (requests.get(path)?.count ?? 0) + 1, body, authorization });
    return documents.get(path) ?? { status: 404, headers, body: "{}" };
  }

  const server = createServer((request, response) => {
    void answer(request).then(({ status, headers, body }) => response.writeHead(status, headers).end(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
