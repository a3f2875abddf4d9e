import { once } from "node:events";
import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

interface Carried {
  readonly near: Socket;
  readonly far: Socket;
  /** Both ends stay open, and receive nothing more. */
  silent: boolean;
}

/** Below the ports that Linux gives to others, so that no process takes the port of a closed line. */
const newPort = (): number => 20_000 + Math.floor(Math.random() * 12_000);

/**
 * A stretch of network: an address that stays while what is behind it dies and comes back elsewhere, and that can be cut,
 * slowed down, half-opened and closed.
 */
export class Line {
  readonly #target: () => number | null;
  readonly #waits: boolean;
  readonly #carried = new Set<Carried>();
  #server: Server | undefined;
  #port = 0;
  #delayMs = 0;
  /** Time of the last disturbance (ms since 1970): requests in flight at that time may lose their answers. */
  disturbedAt = 0;

  /**
   * @param target the port behind the line, null while there is none
   * @param waits whether a connection opened while there is no target waits for one (which saves clients
   * a back-off) instead of being reset
   */
  constructor(target: () => number | null, waits = false) {
    this.#target = target;
    this.#waits = waits;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get isOpen(): boolean {
    return this.#server !== undefined;
  }

  async open(): Promise<this> {
    for (let tries = 0; ; tries++) {
      const server = createServer({ noDelay: true }, (near) => void this.#carry(near));
      try {
        const port = this.#port || newPort();
        server.listen(port, "127.0.0.1");
        await once(server, "listening");
        this.#port = port;
        this.#server = server;
        return this;
      } catch (failure) {
        // Another connection may occupy this port for a moment.
        if (tries === 300) throw failure;
        await sleep(100);
      }
    }
  }

  /** Stops listening, and resets all open connections. */
  close(): void {
    this.#server?.close();
    this.#server = undefined;
    this.cut(true);
  }

  /** @param reset with a reset, else as if both ends had closed */
  cut(reset: boolean): void {
    this.disturbedAt = Date.now();
    for (const { near, far } of this.#carried) {
      for (const socket of [near, far]) {
        if (reset) socket.resetAndDestroy();
        else socket.destroy();
      }
    }
    this.#carried.clear();
  }

  /** Open connections stay open but carry no more bytes until they are cut; new connections work. */
  halfOpen(): void {
    this.disturbedAt = Date.now();
    for (const each of this.#carried) each.silent = true;
  }

  slow(ms: number): void {
    this.disturbedAt = Date.now();
    this.#delayMs = ms;
  }

  /** All is well again, except that what had gone silent is cut. */
  heal(): void {
    this.#delayMs = 0;
    this.disturbedAt = Date.now();
    for (const each of [...this.#carried].filter(({ silent }) => silent)) {
      this.#carried.delete(each);
      each.near.resetAndDestroy();
      each.far.resetAndDestroy();
    }
  }

  async #carry(near: Socket): Promise<void> {
    near.on("error", () => undefined);
    near.pause();
    while (this.#waits && this.#target() === null && !near.destroyed && this.isOpen) await sleep(20);
    const port = this.#target();
    if (port === null) return void near.resetAndDestroy();
    const far = dial({ port, host: "127.0.0.1", noDelay: true });
    far.on("error", () => undefined);
    const each: Carried = { near, far, silent: false };
    this.#carried.add(each);
    this.#pass(each, near, far);
    this.#pass(each, far, near);
    near.resume();
  }

  /** Bytes and the end of them, in their order, from one end to the other. */
  #pass(each: Carried, from: Socket, to: Socket): void {
    let turn: Promise<unknown> | null = null;
    const later = (action: () => void) => {
      if (turn === null && this.#delayMs === 0) return action();
      const mine = (turn ?? Promise.resolve())
        .then(() => sleep(this.#delayMs))
        .then(action)
        .then(() => {
          if (turn === mine) turn = null;
        });
      turn = mine;
    };
    from.on("data", (bytes) =>
      later(() => {
        if (!each.silent && !to.destroyed && !to.write(bytes)) {
          from.pause();
          to.once("drain", () => from.resume());
        }
      }),
    );
    from.on("close", () =>
      later(() => {
        if (each.silent) return;
        this.#carried.delete(each);
        to.destroy();
      }),
    );
  }
}
