/**
 * The gateway as a separate process: the public port stays open while its parent is frozen, and returns after a crash of
 * the gateway. It exits with its parent: responses are completed, and event streams end after a complete line.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Server } from "node:net";
import type { SecureContextOptions, Server as TlsServer } from "node:tls";
import { createGateway, type Gateway, type GatewayOptions } from "./gateway.ts";
import { answerPings } from "./heartbeat.ts";

export interface ToGateway {
  host: string;
  port: number;
  /** Null while the runtime is down. */
  upstreamPort: number | null;
  /** Of the first message; later ones change the port, and read the certificate again. */
  options?: Pick<GatewayOptions, "drainMs" | "trustedProxies" | "upstreamKey">;
  /** Files in PEM format. */
  tls?: { cert: string; key: string } | undefined;
}

export type FromGateway = { listening: true } | { failure: string };

let gateway: Gateway | undefined;
let server: Server | TlsServer | undefined;

answerPings();
process.once("disconnect", () => void leave());
// Ctrl-C reaches the parent, which stops all processes in order.
process.on("message", (message: ToGateway | string) => {
  if (typeof message === "object") void serve(message);
});

async function serve({ host, port, upstreamPort, options, tls }: ToGateway): Promise<void> {
  try {
    gateway ??= createGateway(null, options);
    gateway.upstreamPort = upstreamPort;
    // Later messages: a failure here leaves the certificate as it was.
    if (server) {
      if (tls && "setSecureContext" in server) server.setSecureContext(contextOf(tls));
      return;
    }
    server = tls ? gateway.withTls(contextOf(tls)) : gateway;
    server.listen(port, host);
    await once(server, "listening");
    tell({ listening: true });
  } catch (failure) {
    tell({ failure: failure instanceof Error && "code" in failure ? String(failure.code) : String(failure) });
  }
}

const contextOf = ({ cert, key }: { cert: string; key: string }): SecureContextOptions => ({
  cert: readFileSync(cert),
  key: readFileSync(key),
});

function tell(message: FromGateway): void {
  process.send?.(message, undefined, {}, () => {});
}

async function leave(): Promise<void> {
  await gateway?.drain();
  process.exit();
}
