/**
 * A service between the browser and the real one: passes everything on, and can do to the event stream what a real one does only
 * rarely: send 1,000 lines a second, cut the connection, be away, or have lost lines.
 */

import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CANARY } from "./console.ts";

export class StreamProxy {
  readonly #server: Server;
  readonly #upstream: URL;
  readonly #streams = new Set<ServerResponse>();
  /** Answers 503 to new streams while it is set. */
  isAway = false;
  /** Lines a second of its own, instead of the service's stream; 0 passes the service's on. */
  linesPerSecond = 0;
  /** Reported as the oldest index instead of the service's own. */
  oldestIndex: number | null = null;
  /** Indexes that streams asked for, in order. */
  readonly asked: Array<string | null> = [];
  sent = 0;

  private constructor(upstream: string) {
    this.#upstream = new URL(upstream);
    this.#server = createServer((incoming, outgoing) => this.#serve(incoming, outgoing));
  }

  static async start(upstream: string): Promise<StreamProxy> {
    const proxy = new StreamProxy(upstream);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts all streams in the middle, as a service that dies does. */
  cut(): void {
    for (const stream of this.#streams) stream.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #serve(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const isStream = incoming.url?.startsWith("/v1/event/stream") === true;
    if (isStream) {
      this.asked.push(new URL(incoming.url ?? "", "http://x").searchParams.get("index"));
      this.#streams.add(outgoing);
      outgoing.on("close", () => this.#streams.delete(outgoing));
      if (this.isAway) {
        outgoing.writeHead(503, { "Content-Type": "application/json" });
        outgoing.end('{"errors":["the service is being deployed"]}');
        return;
      }
      if (this.linesPerSecond > 0) {
        this.#produce(outgoing);
        return;
      }
    }
    const { hostname, port } = this.#upstream;
    const headers = { ...incoming.headers, host: this.#upstream.host };
    const passed = request({ hostname, port, method: incoming.method, path: incoming.url, headers }, (answer) => {
      const oldest = isStream && this.oldestIndex !== null ? { "x-orch-oldest-index": String(this.oldestIndex) } : {};
      outgoing.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...oldest });
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  }

  #produce(outgoing: ServerResponse): void {
    outgoing.writeHead(200, { "Content-Type": "application/json", "X-Orch-Oldest-Index": "1" });
    const began = performance.now();
    let index = 0;
    const timer = setInterval(() => {
      const due = Math.floor(((performance.now() - began) / 1000) * this.linesPerSecond);
      let text = "";
      while (index < due) text += `${JSON.stringify(lineOf(++index))}\n`;
      this.sent = index;
      if (text) outgoing.write(text);
    }, 20);
    outgoing.on("close", () => clearInterval(timer));
  }
}

/** An allocation of about 1 KB, as a scheduler reports it. */
function lineOf(index: number): object {
  const ID = `${index.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;
  const Name = `shop.web[${index % 100}]${index % 500 === 0 ? CANARY : ""}`;
  const TaskStates = {
    web: { State: "running", Events: Array.from({ length: 6 }, (_, at) => ({ Type: "Started", at })) },
  };
  const ClientDescription = "x".repeat(400);
  const Allocation = { ID, Name, JobID: "shop", ClientStatus: "running", ClientDescription, TaskStates };
  const event = { Topic: "Allocation", Type: "AllocationUpdated", Key: ID, Namespace: "default", FilterKeys: ["shop"] };
  return { Index: index, Events: [{ ...event, Index: index, Payload: { Allocation } }] };
}
