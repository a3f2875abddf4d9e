import {
  CLOSE,
  commonProtocol,
  type Fp,
  frameBytes,
  type Hello,
  MAX_FRAME_BYTES,
  MAX_IN_FLIGHT,
  MAX_VOLUMES,
  type NodeReport,
  VOLUME_CHANGES,
  type Vols,
} from "@sallyport/agent-protocol";
import { warn } from "../platform/observability/log.ts";
import { attach, beyondJoin, close, type Link, linkOf, send } from "./link.ts";
import type { Operations } from "./operations.ts";
import type { SessionRecord } from "./session-record.ts";

interface Host {
  readonly node: string;
  readonly ctx: DurableObjectState;
  readonly record: SessionRecord;
  readonly operations: Operations;
  commit<T>(change: () => T): T;
  /** Promises the registry the news of this node; inside a transaction. */
  promiseNews(): void;
  /** How often the agent pings. */
  pingMs(): number;
  /** Which of these volumes nobody but the agent knows. Never rejects. */
  unknownVolumes(held: readonly string[]): Promise<string[]>;
}

const FINGERPRINT_MS = 30_000;
/** Pings after whose time of silence the agent gives a connection up; this side does later. */
const AGENT_DEAD_PINGS = 3;
const DEAD_PINGS = 4.5;
/** How often silence is looked for, in pings. */
const CHECK_PINGS = 6;

const SUPERSEDED = "a newer connection of this node took over";

/** The sockets of one node: which of them is in use, and since when nothing was heard over it. */
export class Connections {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** The socket in use, or null. */
  live(): { readonly socket: WebSocket; readonly id: string } | null {
    const { ctx, record } = this.#host;
    const { live: id } = record.row;
    const socket = id === null ? undefined : ctx.getWebSockets(id)[0];
    return id !== null && socket ? { socket, id } : null;
  }

  /** An agent introduces itself. @returns whether it was welcomed */
  async hello(socket: WebSocket, link: Link, hello: Hello): Promise<boolean> {
    const { ctx, record, operations, commit, promiseNews, unknownVolumes } = this.#host;
    if (link.state !== "opened") return this.drop(socket, CLOSE.protocol, "hello was said before");
    const proto = commonProtocol(hello.proto);
    if (proto === undefined) return this.drop(socket, CLOSE.version, "there is no common protocol version");
    const fault = beyondJoin(link, hello.node);
    if (fault) return this.drop(socket, CLOSE.protocol, `hello: ${fault}`);
    attach(socket, { state: "greeted", proto, epoch: hello.epoch });
    const unknown = await unknownVolumes(volumesOf(hello));
    if (linkOf(socket).state === "over" || socket.readyState !== WebSocket.OPEN) return false;
    // Only now, in one turn with taking over: meanwhile another connection of the node may have.
    const newer = this.#newerThan(link, hello);
    if (newer) return this.drop(socket, CLOSE.superseded, newer);
    const now = Date.now();
    const { resume, forget } = commit(() => {
      record.begin(link, hello, now);
      promiseNews();
      return operations.reconcile(hello.journal, link.id);
    });
    for (const other of ctx.getWebSockets()) {
      if (other !== socket && linkOf(other).state === "greeted") close(other, CLOSE.superseded, SUPERSEDED);
    }
    const pingMs = this.#host.pingMs();
    const deadMs = AGENT_DEAD_PINGS * pingMs;
    const cfg = { pingMs, deadMs, fingerprintMs: FINGERPRINT_MS, maxInflight: MAX_IN_FLIGHT };
    const known = { resume, forget, unknownVolumes: unknown, features: [VOLUME_CHANGES] };
    send(socket, { t: "welcome", proto, session: link.id, serverTime: now, cfg, ...known });
    return true;
  }

  /** The agent's node has changed. */
  changed(socket: WebSocket, link: Link, { node }: Fp): void {
    const { record, commit, promiseNews } = this.#host;
    const known = record.report();
    if (!known) return;
    const { HostVolumes: _, ...fields } = node;
    const whole = { ...known, ...(fields as Partial<NodeReport>) };
    const tooLarge = frameBytes(JSON.stringify(whole)) > MAX_FRAME_BYTES ? "the whole report is too large" : null;
    const fault = beyondJoin(link, whole) ?? tooLarge;
    if (fault) {
      this.drop(socket, CLOSE.protocol, `fp: ${fault}`);
      return;
    }
    commit(() => {
      record.changed(node, Date.now());
      promiseNews();
    });
  }

  /** Volumes of the agent's node have changed. */
  volumesChanged(socket: WebSocket, change: Vols): void {
    const { record, commit, promiseNews } = this.#host;
    if (record.wouldExceed(change)) {
      this.drop(socket, CLOSE.protocol, `vols: the node has more than ${MAX_VOLUMES} volumes`);
      return;
    }
    commit(() => {
      record.volumesChanged(change, Date.now());
      promiseNews();
    });
  }

  /** Closes a socket for a reason of ours. */
  drop(socket: WebSocket, code: number, reason: string): false {
    warn("agent-dropped", { node: this.#host.node, code, reason: reason.slice(0, 256) });
    close(socket, code, reason);
    this.lost(socket, Date.now());
    return false;
  }

  /** The registry does not take what the agent reports. */
  refused(message: string): void {
    const live = this.live();
    if (live) this.drop(live.socket, CLOSE.protocol, `hello: node: ${message}`);
  }

  /** A socket is of no use any more. @param seen when the agent was last heard of over it */
  lost(socket: WebSocket, seen = this.heard(socket)): void {
    if (linkOf(socket).id === this.#host.record.row.live) this.lose(seen);
  }

  /** The connection in use is no more. */
  lose(seen: number): void {
    const { record, commit, promiseNews } = this.#host;
    commit(() => {
      record.lose(seen, Date.now());
      promiseNews();
    });
  }

  /** When the agent was last heard of over a socket, ms since 1970. */
  heard(socket: WebSocket): number {
    const answered = this.#host.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(linkOf(socket).opened, answered);
  }

  /** When anything of use was heard: pings are answered without looking, and would keep any number of idle sockets open. */
  #spoken(socket: WebSocket): number {
    const { state, opened } = linkOf(socket);
    return state === "opened" ? opened : this.heard(socket);
  }

  /** When silence is to be looked for next, as of `now`. */
  nextCheck(now: number): number {
    return now + CHECK_PINGS * this.#host.pingMs();
  }

  /** Closes sockets over which nothing is heard: one whose other end is gone looks as if it were open. */
  check(now: number): void {
    const { ctx, record, commit } = this.#host;
    const sockets = ctx.getWebSockets().filter((socket) => linkOf(socket).state !== "over");
    const silent = sockets.filter((socket) => now - this.#spoken(socket) > DEAD_PINGS * this.#host.pingMs());
    for (const socket of silent) {
      const seen = this.heard(socket);
      close(socket, GOING_AWAY, "nothing was heard of the agent");
      this.lost(socket, seen);
    }
    commit(() => record.checkAt(silent.length < sockets.length ? this.nextCheck(now) : null));
  }

  /** Why a connection must not take over, or null. */
  #newerThan({ number }: Link, { epoch }: Hello): string | null {
    const { epoch: known } = this.#host.record.row;
    if (epoch < known)
      return `this is an old copy: the agent of this node has started ${known} times, this one ${epoch}`;
    const live = this.live();
    return live && linkOf(live.socket).number > number ? SUPERSEDED : null;
  }
}

/** RFC 6455, 7.4.1. */
const GOING_AWAY = 1001;

const volumesOf = ({ node, unavailableVolumes, held }: Hello): string[] =>
  held ?? [...Object.values(node.HostVolumes).map(({ ID }) => ID), ...unavailableVolumes.map(({ id }) => id)];
