import type { Req } from "@sallyport/agent-protocol";
import { type AgentSocket, done, type ScriptedAgent } from "./scripted-agent.ts";

/** An agent as it should be: it comes back whenever it is cut off, does each operation once, and keeps results until `done`. */
export class SteadyAgent {
  readonly #agent: ScriptedAgent;
  /** The ids of its executed operations, in order, each once. */
  readonly effects: string[] = [];
  readonly #journal = new Map<string, number>();
  #socket: AgentSocket | undefined;
  #stopped = false;
  readonly #over: Promise<void>;

  constructor(agent: ScriptedAgent) {
    this.#agent = agent;
    this.#over = this.#live();
  }

  /** Cuts the connection, as a network does. */
  cut(): void {
    this.#socket?.close();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.cut();
    await this.#over;
  }

  async #live(): Promise<void> {
    while (!this.#stopped) {
      try {
        const socket = await this.#agent.connect();
        this.#socket = socket;
        if (this.#stopped) socket.close();
        await this.#talk(socket);
      } catch {
        // The service was cut off, too: again in a moment.
      }
      await scheduler.wait(20);
    }
  }

  async #talk(socket: AgentSocket): Promise<void> {
    const journal = [...this.#journal].map(([op, gen]) => ({ op, gen, state: "finished" as const }));
    let read = 0;
    let over = false;
    void socket.closed.then(() => {
      over = true;
    });
    await Promise.race([socket.welcome({ journal }), socket.closed]);
    while (!over) {
      for (const frame of socket.frames.slice(read)) {
        read += 1;
        if (frame.t === "req") this.#work(socket, frame);
        if (frame.t === "done") this.#journal.delete(frame.op);
        if (frame.t === "welcome") {
          for (const op of frame.forget) this.#journal.delete(op);
          for (const op of frame.resume) socket.send(done(op));
        }
      }
      await scheduler.wait(5);
    }
  }

  #work(socket: AgentSocket, { op, gen }: Req): void {
    const isKnown = this.#journal.has(op);
    if (!isKnown) {
      this.#journal.set(op, gen);
      this.effects.push(op);
    }
    socket.send({ t: "ack", op, state: isKnown ? "duplicate" : "accepted" });
    socket.send(done(op));
  }
}
