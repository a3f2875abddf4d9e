/**
 * The gateway in a process of its own, so that the public port goes on while its starter is frozen, and comes back when it is
 * killed itself. It ends when its parent does: answers are completed, streams of events end whole.
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
// Ctrl-C reaches the starter, which ends all in order.
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
