/**
 * The gateway as a separate process, so that the public port stays open while its parent is frozen, and returns after a
 * crash of the gateway. It exits with its parent: responses are completed, and event streams end after a complete line.
 */
import { once } from "node:events";
import { createGateway } from "./gateway.ts";
import { answerPings } from "./heartbeat.ts";

export interface ToGateway {
  host: string;
  port: number;
  /** Null while the runtime is down. */
  upstreamPort: number | null;
}

export type FromGateway = { listening: true } | { failure: string };

const gateway = createGateway(null);

answerPings();
process.once("disconnect", () => void leave());
// Ctrl-C reaches the parent, which stops all processes in order.
process.on("message", (message: ToGateway | string) => {
  if (typeof message === "object") void serve(message);
});

async function serve({ host, port, upstreamPort }: ToGateway): Promise<void> {
  gateway.upstreamPort = upstreamPort;
  if (gateway.listening) return;
  try {
    gateway.listen(port, host);
    await once(gateway, "listening");
    tell({ listening: true });
  } catch (failure) {
    tell({ failure: failure instanceof Error && "code" in failure ? String(failure.code) : String(failure) });
  }
}

function tell(message: FromGateway): void {
  process.send?.(message, undefined, {}, () => {});
}

async function leave(): Promise<void> {
  await gateway.drain();
  process.exit();
}
