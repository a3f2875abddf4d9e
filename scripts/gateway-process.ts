/** The supervised gateway process of `npm start` and `npm run serve`, which receives the runtime's port. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { FromGateway, ToGateway } from "./gateway-child.ts";
import type { Rhythm } from "./heartbeat.ts";
import { LocalChild } from "./local-child.ts";

const PAUSE_MS = 50;
/** Beyond the time that the gateway gives to running requests. */
const EXIT_MS = 3_000;

/** Options of a public gateway. */
type PublicGateway = Pick<ToGateway, "options" | "tls">;

export class GatewayProcess {
  readonly #host: string;
  readonly #port: number;
  readonly #given: PublicGateway;
  readonly #local: LocalChild;
  #child: ChildProcess | undefined;
  #upstreamPort: number | null = null;

  /** The process starts at once, and listens after `listen`. */
  constructor(host: string, port: number, rhythm?: Rhythm, given: PublicGateway = {}) {
    const { drainMs } = given.options ?? {};
    this.#given = given;
    this.#host = host;
    this.#port = port;
    this.#local = new LocalChild({
      what: "gateway",
      module: new URL(import.meta.resolve("./gateway-child.ts")),
      pauseMs: PAUSE_MS,
      ...(rhythm && { rhythm }),
      ...(drainMs !== undefined && { stopMs: drainMs + EXIT_MS }),
    });
  }

  /** Resolves when it listens for the first time; rejects with the system's code when it cannot. */
  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#local.keep({
        begin: async (child) => {
          this.#child = child;
          const answer = await this.#told(child);
          if ("listening" in answer) {
            child.on("message", (later: FromGateway | string) => {
              if (typeof later === "object" && "failure" in later)
                console.warn(`The gateway keeps its certificate: ${later.failure}.`);
            });
            return resolve();
          }
          reject(new Error(answer.failure));
          throw new Error(answer.failure);
        },
        forGood: () => undefined,
      });
    });
  }

  /** Null: requests are answered with 503 until there is a runtime again. */
  set upstreamPort(port: number | null) {
    this.#upstreamPort = port;
    // An error here means that the process has ended; its successor receives the port, too.
    this.#child?.send(this.#message, () => {});
  }

  /** Reads the files of its certificate again, for new connections. */
  reload(): void {
    this.#child?.send(this.#message, () => {});
  }

  get pid(): number {
    return this.#local.pid;
  }

  async stop(): Promise<void> {
    await this.#local.stop();
  }

  get #message(): ToGateway {
    return { host: this.#host, port: this.#port, upstreamPort: this.#upstreamPort, ...this.#given };
  }

  async #told(child: ChildProcess): Promise<FromGateway> {
    const ended = once(child, "exit").then((): FromGateway => ({ failure: "its process ended" }));
    child.send(this.#message, () => {});
    for (;;) {
      const answer: unknown = await Promise.race([once(child, "message").then(([received]) => received), ended]);
      if (typeof answer === "object") return answer as FromGateway;
    }
  }
}
