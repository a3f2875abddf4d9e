/** The bench's handle of the load generator: one job at a time in another process. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type {
  Close,
  Delivered,
  Found,
  Job,
  Measured,
  Open,
  Publish,
  Replay,
  Replayed,
  Requests,
  Seek,
} from "./load.ts";

type Result = Measured & Delivered & Replayed;
type Reply = { result: Result } | { failure: string };

export class Loader {
  readonly #child: ChildProcess = fork(fileURLToPath(import.meta.resolve("./load.ts")), []);
  #reply = Promise.withResolvers<Result>();

  constructor() {
    this.#child.on("message", (reply: Reply) => {
      if ("failure" in reply) this.#reply.reject(new Error(reply.failure));
      else this.#reply.resolve(reply.result);
    });
    // A loader that is stopped before its first job rejects an unused promise.
    this.#reply.promise.catch(() => undefined);
    this.#child.on("exit", () => this.#reply.reject(new Error("the load generator ended")));
  }

  requests(job: Omit<Requests, "kind">): Promise<Measured> {
    return this.#run({ ...job, kind: "requests" });
  }

  async open(job: Omit<Open, "kind">): Promise<void> {
    await this.#run({ ...job, kind: "open" });
  }

  async close(job: Omit<Close, "kind">): Promise<void> {
    await this.#run({ ...job, kind: "close" });
  }

  publish(job: Omit<Publish, "kind">): Promise<Delivered> {
    return this.#run({ ...job, kind: "publish" });
  }

  replay(job: Omit<Replay, "kind">): Promise<Replayed> {
    return this.#run({ ...job, kind: "replay" });
  }

  async seek(job: Omit<Seek, "kind">): Promise<void> {
    await this.#run({ ...job, kind: "seek" });
  }

  async found(job: Omit<Found, "kind">): Promise<void> {
    await this.#run({ ...job, kind: "found" });
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }

  #run(job: Job): Promise<Result> {
    this.#reply = Promise.withResolvers();
    this.#child.send(job);
    return this.#reply.promise;
  }
}
