import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { createServer } from "node:net";
import { Ending, EXIT } from "./exit.ts";
import { codeOf } from "./log.ts";

/**
 * Locks a state directory against a second agent. Linux frees the abstract socket when the process ends; other
 * systems have none, and there the lock has no effect.
 * @returns the release function
 * @throws Ending when another agent holds the lock
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
