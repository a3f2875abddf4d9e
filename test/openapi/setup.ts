import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TestProject } from "vitest/node";
import { Checker, type Exchange, type OpenApiDocument } from "./checker.ts";
import { Examples } from "./examples.ts";

declare module "vitest" {
  export interface ProvidedContext {
    openApiChecker: string;
  }
}

/**
 * Serves a checker of answers to tests inside the Workers runtime. With EXAMPLES=write what they see becomes the document's
 * examples.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  let checker: Checker | undefined;
  const examples = process.env["EXAMPLES"] === "write" ? new Examples() : null;
  // The document is read when it is first asked for: most test files never do.
  const theChecker = () => {
    checker ??= new Checker(JSON.parse(readFileSync("docs/openapi.json", "utf8")) as OpenApiDocument);
    return checker;
  };

  async function answer(request: IncomingMessage): Promise<unknown> {
    const body: unknown = JSON.parse(await text(request));
    if (request.url === "/unproven") return theChecker().unproven(body as string[]);
    if (request.url === "/unasked") return theChecker().unasked(body as string[]);
    return (body as Exchange[]).flatMap((exchange) => {
      const problems = theChecker().check(exchange);
      if (problems.length === 0) examples?.keep(theChecker(), exchange);
      return problems;
    });
  }

  const server = createServer((request, response) => {
    answer(request).then(
      (value) => response.end(JSON.stringify(value)),
      (failure: unknown) => response.writeHead(500).end(String(failure)),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  project.provide("openApiChecker", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    if (examples && !examples.isEmpty) writeFileSync("src/openapi/examples.json", examples.text());
    server.closeAllConnections();
    server.close();
  };
}
