import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { constants, inflateRawSync } from "node:zlib";
import { expect } from "vitest";

/**
 * Stands between a client of event notifications and the service, passes every byte on, and tells both heads and every
 * frame, in a form that is the same for each run. `UPDATE_TRANSCRIPTS=1` writes the golden files.
 */
export class SocketRecorder {
  readonly #server: Server;
  readonly #connections: { readonly sent: Buffer[]; readonly received: Buffer[] }[] = [];
  readonly #open = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @param address the service's */
  static async before(address: string): Promise<SocketRecorder> {
    const { hostname, port } = new URL(address);
    const server = createServer();
    const recorder = new SocketRecorder(server);
    server.on("connection", (client) => {
      const connection = { sent: [] as Buffer[], received: [] as Buffer[] };
      recorder.#connections.push(connection);
      const service = connect(Number(port), hostname);
      client.on("data", (bytes) => connection.sent.push(bytes));
      service.on("data", (bytes) => connection.received.push(bytes));
      client.pipe(service).pipe(client);
      for (const socket of [client, service]) {
        recorder.#open.add(socket);
        // Either side may end the connection at any time.
        socket.on("error", () => [client, service].forEach((one) => void one.destroy()));
      }
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return recorder;
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The bytes of each upgraded connection from its request and its answer on: clients use connections again. */
  #upgraded(): { readonly sent: Buffer; readonly received: Buffer }[] {
    return this.#connections.flatMap(({ sent, received }) => {
      const [asked, answered] = [Buffer.concat(sent), Buffer.concat(received)];
      const at = answered.indexOf("HTTP/1.1 101");
      const from = asked.lastIndexOf("GET /v1/sys/events/subscribe/");
      return at < 0 ? [] : [{ sent: asked.subarray(from), received: answered.subarray(at) }];
    });
  }

  /** How many connections were upgraded. */
  get upgrades(): number {
    return this.#upgraded().length;
  }

  /** Breaks every connection, as a network does. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  /** The first upgraded connection: both heads, the client's frames, and the service's frames about a mount, in order. */
  lines(mount: string): string[] {
    const [upgraded] = this.#upgraded();
    if (!upgraded) return [];
    const [asked, fromClient] = parted(upgraded.sent);
    const [answered, fromService] = parted(upgraded.received);
    const frames = framesIn(fromService);
    const texts = textsIn(frames).filter((text) => text.includes(`"mount_path":"${mount}"`));
    const pinged = framesIn(fromClient).some(({ kind }) => kind === "ping");
    const ponged = frames.some(({ kind }) => kind === "pong");
    return [
      ...asked.map((line) => `> ${normalised(line)}`),
      ...answered.map((line) => `< ${normalised(line)}`),
      ...(pinged ? ["> ping"] : []),
      ...(ponged ? ["< pong"] : []),
      ...texts.map((text) => `< ${JSON.stringify(normalised(text))}`),
    ];
  }

  /** Compares the lines with `transcripts/events-NAME.txt`, or writes that file. */
  compare(name: string, mount: string): void {
    const file = transcriptOf(name);
    const transcript = `${this.lines(mount).join("\n")}\n`;
    if (process.env["UPDATE_TRANSCRIPTS"] === "1") writeFileSync(file, transcript);
    expect(existsSync(file), `${file} is missing; UPDATE_TRANSCRIPTS=1 writes it`).toBe(true);
    expect(transcript).toBe(readFileSync(file, "utf8"));
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}

export const transcriptOf = (name: string): string => `test/clients/transcripts/events-${name}.txt`;

/** The lines of the head, and the bytes behind it. */
function parted(bytes: Buffer): [head: string[], rest: Buffer] {
  const end = bytes.indexOf("\r\n\r\n");
  const [first = "", ...headers] = bytes.subarray(0, end).toString().split("\r\n");
  const lower = headers.map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()));
  // Names are told in one order: libraries keep them in maps.
  return [[first, ...lower.sort()], bytes.subarray(end + 4)];
}

const KINDS: Readonly<Record<number, string>> = { 1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong" };

/** The whole frames in the bytes of one side, see RFC 6455, section 5.2. */
function framesIn(bytes: Buffer): { readonly kind: string; readonly body: Buffer; readonly compressed: boolean }[] {
  const frames: { kind: string; body: Buffer; compressed: boolean }[] = [];
  for (let at = 0; at + 2 <= bytes.length; ) {
    const [first = 0, second = 0] = bytes.subarray(at, at + 2);
    const short = second & 127;
    const extended = short === 126 ? 2 : short === 127 ? 8 : 0;
    const length =
      extended === 0 ? short : extended === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
    const body = at + 2 + extended + (second & 128 ? 4 : 0);
    if (body + length > bytes.length) break;
    const kind = KINDS[first & 15] ?? "other";
    frames.push({ kind, body: bytes.subarray(body, body + length), compressed: (first & 64) !== 0 });
    at = body + length;
  }
  return frames;
}

/** The lines of all text frames, which end with a line feed each. A compressed one continues those before, see RFC 7692. */
function textsIn(frames: ReturnType<typeof framesIn>): string[] {
  const texts = frames.filter(({ kind }) => kind === "text");
  const [packed, plain] = [true, false].map((is) => texts.filter(({ compressed }) => compressed === is));
  const pieces = (packed ?? []).flatMap(({ body }) => [body, Buffer.from([0, 0, 0xff, 0xff])]);
  const unpacked = inflateRawSync(Buffer.concat(pieces), { finishFlush: constants.Z_SYNC_FLUSH });
  return [unpacked, ...(plain ?? []).map(({ body }) => body)].flatMap((bytes) => bytes.toString().split(/(?<=\n)/));
}

const normalised = (text: string): string =>
  text
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, ":id")
    .replace(/"(index|time|mount_accessor)":"[^"]*"/g, '"$1":":$1"')
    .replace(
      /^(x-vault-token|authorization|sec-websocket-key|sec-websocket-accept|host|date|content-length|user-agent): .*/i,
      "$1: :$1",
    )
    .replace(/^(x-[a-z-]*(index|id)): .*/i, "$1: :n");
