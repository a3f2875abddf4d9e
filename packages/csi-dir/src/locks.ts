import { createHash } from "node:crypto";
import { createServer, type Server } from "node:net";
import { aborted, codeOf } from "./refusal.ts";

/**
 * Excludes concurrent calls for the same volume or name, also from other processes on the same directory: the second
 * call fails with ABORTED, as CSI requires. On Linux a lock is an abstract socket, which the kernel frees with its
 * process.
 */
export class Locks {
  readonly #prefix: string;
  readonly #held = new Set<string>();

  constructor(root: string) {
    this.#prefix = `\0csi-dir-${digest(root)}-`;
  }

  async with<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const releases: Array<() => void> = [];
    try {
      for (const key of keys) releases.push(await this.#take(key));
      return await work();
    } finally {
      for (const release of releases) release();
    }
  }

  async #take(key: string): Promise<() => void> {
    const busy = aborted(`another operation is pending for ${key}`);
    if (this.#held.has(key)) throw busy;
    this.#held.add(key);
    try {
      const socket = process.platform === "linux" ? await listen(this.#prefix + digest(key)) : undefined;
      return () => {
        this.#held.delete(key);
        socket?.close();
      };
    } catch (failure) {
      this.#held.delete(key);
      throw codeOf(failure) === "EADDRINUSE" ? busy : failure;
    }
  }
}

const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32);

function listen(name: string): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  server.unref();
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(name, () => resolve(server));
  });
}
