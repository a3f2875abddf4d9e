/**
 * The public port of `npm start` and `npm run serve`. workerd refuses verbs it does not know, LIST among them, before any
 * Worker code runs, and so does Node's HTTP parser. This gateway parses just enough HTTP/1.1 to find each request line.
 * It turns `LIST /path?q` into `GET /path?list=true&q`, `SCAN` likewise, and forwards everything else byte for byte, except reserved
 * headers (`gateway-rules.ts`).
 *
 * Connections are capped, in all and for each address. At a cap the longest idle connection is closed, so idle ones
 * cannot lock others out; a new one is refused only when all are in use.
 */
import { readFileSync } from "node:fs";
import { Server, type Socket } from "node:net";
import { createServer as createTlsServer, type SecureContextOptions, type Server as TlsServer } from "node:tls";
import { addressOf, Forwarding } from "./forwarding.ts";
import { Connection, plainAnswer, type Surroundings, type Times } from "./gateway-connection.ts";

const TIMES: Times = { headMs: 15_000, stallMs: 60_000, idleMs: 75_000, writeMs: 120_000 };
/** Idle time before TCP keep-alive probes. */
const KEEP_ALIVE_MS = 60_000;
/** Time for running responses when the service stops. */
const DRAIN_MS = 2_000;
/** Maximum number of connections, if the system allows it. */
const MAX_CONNECTIONS = 10_000;
/** Descriptors reserved for other uses. */
const OTHER_DESCRIPTORS = 256;
/** Connections above the cap that get a response; the system drops further ones. */
const MAX_CONCURRENT_REFUSALS = 64;

export interface GatewayOptions extends Partial<Times> {
  maxConnections?: number;
  maxPerAddress?: number;
  /** Time for running responses when the service stops. */
  drainMs?: number;
  /** Proxies whose statements about clients are believed; absent: the service sees no addresses. */
  trustedProxies?: readonly string[];
  /** Shown to the runtime with each request, which refuses those of other local processes. */
  upstreamKey?: string;
}

export function createGateway(upstreamPort: number | null, options: GatewayOptions = {}): Gateway {
  return new Gateway(upstreamPort, options);
}

export class Gateway extends Server implements Surroundings {
  readonly times: Times;
  /** Null while the runtime is down: requests return 503 then. */
  upstreamPort: number | null;
  readonly forwarding: Forwarding | undefined;
  readonly upstreamKey: string | undefined;
  readonly #drainMs: number;
  #tls: TlsServer | undefined;
  readonly #most: number;
  readonly #mostPerAddress: number;
  readonly #addresses = new Map<Connection, string>();
  readonly #perAddress = new Map<string, number>();
  /** Idle connections, the longest idle first. */
  readonly #idle = new Set<Connection>();

  constructor(upstreamPort: number | null, options: GatewayOptions) {
    super({ allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
    const { maxConnections = connectionsFor(openFilesLimit()), maxPerAddress, ...others } = options;
    const { drainMs = DRAIN_MS, trustedProxies, upstreamKey, ...times } = others;
    this.upstreamKey = upstreamKey;
    this.#drainMs = drainMs;
    this.forwarding = trustedProxies && new Forwarding(trustedProxies);
    this.upstreamPort = upstreamPort;
    this.times = { ...TIMES, ...times };
    this.#most = maxConnections;
    this.#mostPerAddress = maxPerAddress ?? Math.ceil(maxConnections * 0.75);
    this.maxConnections = maxConnections + MAX_CONCURRENT_REFUSALS;
    this.on("connection", (client: Socket) => this.#accept(client));
  }

  /** A server that decrypts connections for this gateway; listen on it instead. Caps count handshakes, too. */
  withTls(context: SecureContextOptions): TlsServer {
    const { headMs } = this.times;
    const tls = createTlsServer({
      ...context,
      minVersion: "TLSv1.2",
      handshakeTimeout: headMs,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
    });
    tls.maxConnections = this.maxConnections;
    tls.on("secureConnection", (client) => this.emit("connection", client));
    this.#tls = tls;
    return tls;
  }

  idle(connection: Connection): void {
    this.#idle.delete(connection);
    this.#idle.add(connection);
  }

  busy(connection: Connection): void {
    this.#idle.delete(connection);
  }

  closed(connection: Connection): void {
    this.#idle.delete(connection);
    const address = this.#addresses.get(connection);
    if (address === undefined) return;
    this.#addresses.delete(connection);
    const left = (this.#perAddress.get(address) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(address, left);
    else this.#perAddress.delete(address);
  }

  /**
   * Accepts no more connections and ends the open ones: responses are completed, event streams end with a complete
   * chunk.
   */
  async drain(): Promise<void> {
    this.close();
    this.#tls?.close();
    for (const connection of this.#addresses.keys()) connection.drain();
    const deadline = performance.now() + this.#drainMs;
    while (this.#hasRequests() && performance.now() < deadline) await new Promise((go) => setTimeout(go, 10));
    for (const connection of this.#addresses.keys()) connection.destroy();
  }

  #hasRequests(): boolean {
    for (const connection of this.#addresses.keys()) if (!connection.isTunnel) return true;
    return false;
  }

  #accept(client: Socket): void {
    const address = addressOf(client.remoteAddress ?? "");
    const refusal = this.#refusal(address);
    if (refusal) {
      client.on("error", () => {});
      client.end(plainAnswer(503, `${refusal}\n`), () => client.destroy());
      return;
    }
    const connection = new Connection(client, this);
    this.#addresses.set(connection, address);
    this.#perAddress.set(address, (this.#perAddress.get(address) ?? 0) + 1);
  }

  /** Closes an idle connection at a cap. @returns the reason when none is idle */
  #refusal(address: string): string | undefined {
    // A proxy has many clients behind one address.
    const isProxy = this.forwarding?.trusts(address) === true;
    if (!isProxy && (this.#perAddress.get(address) ?? 0) >= this.#mostPerAddress) {
      const mine = this.#longestIdle((connection) => this.#addresses.get(connection) === address);
      if (!mine) return "too many connections from this address";
      this.#evict(mine);
    } else if (this.#addresses.size >= this.#most) {
      const any = this.#longestIdle(() => true);
      if (!any) return "too many connections";
      this.#evict(any);
    }
    return undefined;
  }

  #longestIdle(suits: (connection: Connection) => boolean): Connection | undefined {
    for (const connection of this.#idle) if (suits(connection)) return connection;
    return undefined;
  }

  #evict(connection: Connection): void {
    this.closed(connection);
    connection.evict();
  }
}

/** A connection uses two descriptors here, and the runtime needs some for the files of objects. */
export const connectionsFor = (openFiles: number): number =>
  Math.max(16, Math.min(MAX_CONNECTIONS, Math.floor((openFiles - OTHER_DESCRIPTORS) / 2)));

/** Descriptor limit of this process; none if the system does not report it. */
function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Number(soft ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
