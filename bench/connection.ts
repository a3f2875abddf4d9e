/** A keep-alive connection that sends prepared requests and reads just enough of the answers. Node's own clients cost more than workerd. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

const LENGTH = /\r\ncontent-length: *(\d+)/i;

export class Connection {
  readonly #socket: Socket;
  #pending: Buffer = Buffer.alloc(0);
  #waiting: ((failure: Error | null, body: Buffer) => void) | undefined;
  #done = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (bytes) => this.#take(bytes));
    socket.on("error", (failure) => this.#end(failure));
    socket.on("close", () => this.#end(new Error("the server closed a connection")));
  }

  static async open(port: number): Promise<Connection> {
    return new Connection(await dial(port));
  }

  /** Sends one request; `answered` is called once, when its whole answer is here. An answer other than 2xx is a failure. */
  send(request: string, answered: (failure: Error | null, body: Buffer) => void): void {
    this.#waiting = answered;
    this.#socket.write(request);
  }

  /** @returns the answer's body */
  ask(request: string): Promise<Buffer> {
    return new Promise((resolve, reject) =>
      this.send(request, (failure, body) => (failure ? reject(failure) : resolve(body))),
    );
  }

  close(): void {
    this.#done = true;
    this.#socket.destroy();
  }

  #take(bytes: Buffer): void {
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    const end = this.#pending.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = this.#pending.toString("latin1", 0, end);
    const status = Number(head.slice(9, 12));
    const length = status === 204 ? 0 : Number(LENGTH.exec(head)?.[1]);
    if (Number.isNaN(length)) this.#end(new Error(`an answer without a length: ${head}`));
    const rest = end + 4 + length;
    if (this.#pending.length < rest) return;
    if (status < 200 || status > 299) this.#end(new Error(this.#pending.toString("utf8")));
    const body = this.#pending.subarray(end + 4, rest);
    this.#pending = this.#pending.subarray(rest);
    const answered = this.#waiting;
    this.#waiting = undefined;
    answered?.(null, body);
  }

  #end(failure: Error): void {
    if (this.#done) return;
    this.close();
    this.#waiting?.(failure, Buffer.alloc(0));
    this.#waiting = undefined;
  }
}

export async function dial(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  return socket;
}

let rays = 0;

export const TOKEN_HEADER = "X-Orch-Token";

/**
 * One raw request, with its own ray id as behind the edge, which distributes streams over relays.
 * @param header the name of the token's header, which other programs expect under another one
 */
export function wire(
  method: string,
  path: string,
  token: string,
  body = "",
  accept?: string,
  header = TOKEN_HEADER,
): string {
  const length = method === "GET" || method === "OPTIONS" ? "" : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  const accepts = accept === undefined ? "" : `Accept: ${accept}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: bench\r\n${header}: ${token}\r\nCF-Ray: ${(rays++).toString(16)}\r\n${accepts}${length}\r\n${body}`;
}
