import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { createServer } from "node:net";
import { Ending, EXIT } from "./exit.ts";
import { codeOf } from "./log.ts";

/**
 * Keeps a second agent off a state directory until the lock is released or this process ends. Linux frees an abstract socket
 * with its process, however that ends; other systems have none, and there nobody is kept off.
 * @returns what releases it
 * @throws Ending when another agent uses the directory
 */
export async function lockState(stateDir: string): Promise<() => void> {
  if (process.platform !== "linux") return () => {};
  const name = createHash("sha256").update(realpathSync(stateDir)).digest("hex").slice(0, 32);
  const server = createServer((socket) => socket.destroy());
  server.unref();
  await new Promise<void>((resolve, reject) => {
    server.once("error", (failure) => {
      const taken = codeOf(failure) === "EADDRINUSE";
      reject(taken ? new Ending(EXIT.unusable, `Another agent is running on ${stateDir}.`) : failure);
    });
    server.listen(`\0sallyport-agent-${name}`, resolve);
  });
  return () => server.close();
}
