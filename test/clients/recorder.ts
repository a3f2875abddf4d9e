import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { gunzipSync } from "node:zlib";
import { expect } from "vitest";
import { type Message, messagesIn } from "./http-messages.ts";

/**
 * Stands between a client and the service, passes every byte on, and tells what both said: a line for each exchange with
 * verb, path, headers of the API, status and the shapes of the bodies. `UPDATE_TRANSCRIPTS=1` writes the golden files.
 */
export class Recorder {
  readonly #server: Server;
  readonly #connections: Connection[] = [];
  #chunks = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @param address the service's */
  static async before(address: string): Promise<Recorder> {
    const { hostname, port } = new URL(address);
    const server = createServer();
    const recorder = new Recorder(server);
    server.on("connection", (client) => {
      const connection: Connection = { sent: [], received: [] };
      recorder.#connections.push(connection);
      const service = connect(Number(port), hostname);
      client.on("data", (bytes) => connection.sent.push({ bytes, order: recorder.#chunks++ }));
      service.on("data", (bytes) => connection.received.push(bytes));
      client.pipe(service).pipe(client);
      // Either side may end the connection at any time.
      for (const socket of [client, service])
        socket.on("error", () => [client, service].forEach((one) => void one.destroy()));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return recorder;
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Compares the exchanges with `transcripts/NAME.txt`, or writes that file. */
  compare(name: string): void {
    const file = `test/clients/transcripts/${name}.txt`;
    const transcript = `${this.#lines().join("\n")}\n`;
    if (process.env["UPDATE_TRANSCRIPTS"] === "1") writeFileSync(file, transcript);
    expect(existsSync(file), `${file} is missing; UPDATE_TRANSCRIPTS=1 writes it`).toBe(true);
    expect(transcript).toBe(readFileSync(file, "utf8"));
  }

  close(): void {
    this.#server.close();
  }

  #lines(): string[] {
    // A stream runs beside other requests, so its place among them is not fixed: it stands last.
    const exchanges = this.#connections
      .flatMap(exchangesOf)
      .sort((a, b) => Number(isStream(a)) - Number(isStream(b)) || a.order - b.order);
    // Of a request that is repeated until something has happened, the last answer counts.
    return exchanges.filter(({ key }, index) => key !== exchanges[index + 1]?.key).map(({ line }) => line);
  }
}

const isStream = ({ key }: Exchange): boolean => key.includes("/event/stream");

interface Connection {
  readonly sent: { readonly bytes: Buffer; readonly order: number }[];
  readonly received: Buffer[];
}

interface Exchange {
  readonly order: number;
  readonly key: string;
  readonly line: string;
}

function exchangesOf({ sent, received }: Connection): Exchange[] {
  const requests = messagesIn(Buffer.concat(sent.map(({ bytes }) => bytes)), () => false);
  const answers = messagesIn(
    Buffer.concat(received),
    (number, line) => /^\S+ (1\d\d|204|304)/.test(line) || requests[number]?.startLine.startsWith("HEAD ") === true,
  );
  return requests.map((request, index) => {
    const [verb = "", target = ""] = request.startLine.split(" ");
    const answer = answers[index];
    const status = answer?.startLine.split(" ")[1] ?? "no answer";
    const path = normalised(target);
    const names = [...request.headers.keys()].filter((name) =>
      /^(x-vault-|x-nomad-|authorization|content-type)/.test(name),
    );
    const parts = [
      verb,
      path,
      `[${names.sort().join(" ")}]`,
      shapeOf(request),
      "->",
      status,
      answer ? shapeOf(answer) : "",
    ];
    return {
      order: orderOf(sent, request.at),
      key: `${verb} ${path} ${status}`,
      line: parts.filter(Boolean).join(" "),
    };
  });
}

/** The number of the piece that an offset lies in: tells which of two connections was used first. */
function orderOf(sent: Connection["sent"], at: number): number {
  let passed = 0;
  for (const { bytes, order } of sent) {
    passed += bytes.length;
    if (at < passed) return order;
  }
  return Number.POSITIVE_INFINITY;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const normalised = (target: string): string =>
  target
    .replace(UUID, ":id")
    .replace(/(hvs|hvb)\.[\w-]+/g, ":token")
    .replace(/\b(index|wait)=\d+\w*/g, "$1=:n");

function shapeOf({ headers, body }: Message): string {
  if (body === null) return "text";
  if (body.length === 0) return "";
  const plain = headers.get("content-encoding") === "gzip" ? gunzipSync(body) : body;
  try {
    return JSON.stringify(shape(JSON.parse(plain.toString())));
  } catch {
    return "text";
  }
}

/** The type of each member. Lists, and maps whose keys are data, are told as such: other tests use the service, too. */
function shape(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value === null ? "null" : typeof value;
  if (Array.isArray(value)) return "list";
  const entries = Object.entries(value);
  if (entries.some(([key]) => /[/.]/.test(key) || key.match(UUID))) return "map";
  return Object.fromEntries(
    entries
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, key === "key_info" ? "map" : shape(member)]),
  );
}
