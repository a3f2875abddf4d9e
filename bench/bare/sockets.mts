/** The least that a service with agents does: one object for each agent, whose WebSocket hibernates, and callers who wait. */
import { DurableObject } from "cloudflare:workers";

/** As an agent of the service says it. */
const [PING, PONG] = ['{"t":"ping"}', '{"t":"pong"}'];

export class Sockets extends DurableObject {
  readonly #asked = new Map<string, (answer: string) => void>();
  readonly #waiting = new Set<(answer: string) => void>();
  #questions = 0;

  constructor(ctx: DurableObjectState, env: object) {
    super(ctx, env as Cloudflare.Env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
  }

  override async fetch(): Promise<Response> {
    const { 0: client, 1: socket } = new WebSocketPair();
    this.ctx.acceptWebSocket(socket);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Sends a text over the socket, and answers it when it comes back. */
  echo(text: string): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const number = String(this.#questions++);
    this.#asked.set(number, resolve);
    for (const socket of this.ctx.getWebSockets()) socket.send(`${number} ${text}`);
    return promise;
  }

  override async webSocketMessage(_socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const text = String(message);
    const space = text.indexOf(" ");
    const number = text.slice(0, space);
    this.#asked.get(number)?.(text.slice(space + 1));
    this.#asked.delete(number);
  }

  /** Answers at the next release. */
  wait(): Promise<string> {
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
    });
  }

  release(text: string): void {
    for (const answer of this.#waiting) answer(text);
    this.#waiting.clear();
  }
}
