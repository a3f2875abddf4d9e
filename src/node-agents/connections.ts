import {
  CLOSE,
  commonProtocol,
  type Fp,
  frameBytes,
  type Hello,
  MAX_FRAME_BYTES,
  MAX_IN_FLIGHT,
  MAX_VOLUMES,
  NO_ACCEPTED,
  type NodeReport,
  VOLUME_CHANGES,
  type Vols,
} from "@sallyport/agent-protocol";
import { within } from "../lib/timeout.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { settings } from "../platform/settings.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import type { AgentOperations } from "./agent-operations.ts";
import { attach, beyondJoin, close, type Link, linkOf, send } from "./link.ts";
import type { SessionRecord } from "./session-record.ts";

const FINGERPRINT_MS = 30_000;
const ASK_MS = 5_000;
/** Missed pings until the agent closes a connection; this side waits longer. */
const AGENT_DEAD_PINGS = 3;
const DEAD_PINGS = 4.5;
/** The interval of silence checks, in pings: the first one of a connection, and the later ones. */
const FIRST_CHECK_PINGS = 6;
const CHECK_PINGS = 60;

const SUPERSEDED = "a newer connection of this node took over";

/**
 * The WebSockets of one node: which one is live, and when the agent was last heard. At most one socket is live; a
 * newer connection supersedes it.
 */
export class Connections {
  /**
   * When the next silence check is due; null when that is not known. In memory: the alarm keeps its time when the object
   * hibernates, and each alarm checks.
   */
  #checkDue: number | null = null;

  constructor(
    private readonly object: ObjectContext,
    private readonly ctx: DurableObjectState,
    private readonly record: SessionRecord,
    private readonly operations: AgentOperations,
  ) {}

  /** The live socket, or null. */
  live(): { readonly socket: WebSocket; readonly id: string } | null {
    const { live: id } = this.record.row;
    const socket = id === null ? undefined : this.ctx.getWebSockets(id)[0];
    return id !== null && socket ? { socket, id } : null;
  }

  /** Handles an agent's hello. @returns whether it was welcomed */
  async hello(socket: WebSocket, link: Link, hello: Hello): Promise<boolean> {
    if (link.state !== "opened") return this.drop(socket, CLOSE.protocol, "hello was said before");
    const proto = commonProtocol(hello.proto);
    if (proto === undefined) return this.drop(socket, CLOSE.version, "there is no common protocol version");
    const fault = beyondJoin(link, hello.node);
    if (fault) return this.drop(socket, CLOSE.protocol, `hello: ${fault}`);
    attach(socket, { state: "greeted", proto, epoch: hello.epoch });
    const unknown = await this.#unknownVolumes(volumesOf(hello));
    if (linkOf(socket).state === "over" || socket.readyState !== WebSocket.OPEN) return false;
    // Checked in the same event as the takeover, since another connection may have taken over during the await.
    const newer = this.#newerThan(link, hello);
    if (newer) return this.drop(socket, CLOSE.superseded, newer);
    const now = Date.now();
    const { resume, forget } = this.object.commit(() => {
      this.record.begin(link, hello, now);
      this.#enqueueUpdate();
      return this.operations.reconcile(hello.journal, link.id);
    });
    for (const other of this.ctx.getWebSockets()) {
      if (other !== socket && linkOf(other).state === "greeted") close(other, CLOSE.superseded, SUPERSEDED);
    }
    const pingMs = this.#pingMs();
    const deadMs = AGENT_DEAD_PINGS * pingMs;
    const cfg = { pingMs, deadMs, fingerprintMs: FINGERPRINT_MS, maxInflight: MAX_IN_FLIGHT };
    const known = { resume, forget, unknownVolumes: unknown, features: [VOLUME_CHANGES, NO_ACCEPTED] };
    send(socket, { t: "welcome", proto, session: link.id, serverTime: now, cfg, ...known });
    return true;
  }

  /** Handles a change of the agent's node. */
  changed(socket: WebSocket, link: Link, { node }: Fp): void {
    const known = this.record.report();
    if (!known) return;
    const { HostVolumes: _, ...fields } = node;
    const whole = { ...known, ...(fields as Partial<NodeReport>) };
    const tooLarge = frameBytes(JSON.stringify(whole)) > MAX_FRAME_BYTES ? "the whole report is too large" : null;
    const fault = beyondJoin(link, whole) ?? tooLarge;
    if (fault) {
      this.drop(socket, CLOSE.protocol, `fp: ${fault}`);
      return;
    }
    this.object.commit(() => {
      this.record.changed(node, Date.now());
      this.#enqueueUpdate();
    });
  }

  /** Handles a change of the node's volumes. */
  volumesChanged(socket: WebSocket, change: Vols): void {
    if (this.record.wouldExceed(change)) {
      this.drop(socket, CLOSE.protocol, `vols: the node has more than ${MAX_VOLUMES} volumes`);
      return;
    }
    this.object.commit(() => {
      this.record.volumesChanged(change, Date.now());
      this.#enqueueUpdate();
    });
  }

  /** Closes a socket for a protocol reason. */
  drop(socket: WebSocket, code: number, reason: string): false {
    warn("agent-dropped", { node: this.object.name, code, reason: reason.slice(0, 256) });
    close(socket, code, reason);
    this.lost(socket, Date.now());
    return false;
  }

  /** Closes the live connection after the registry refused its report. */
  refused(message: string): void {
    const live = this.live();
    if (live) this.drop(live.socket, CLOSE.protocol, `hello: node: ${message}`);
  }

  /** Marks a socket as unusable. @param seen when the agent was last heard over it */
  lost(socket: WebSocket, seen = this.heard(socket)): void {
    if (linkOf(socket).id === this.record.row.live) this.lose(seen);
  }

  /** Marks the live connection as lost. */
  lose(seen: number): void {
    this.object.commit(() => {
      this.record.lose(seen, Date.now());
      this.#enqueueUpdate();
    });
  }

  /** When the agent was last heard over a socket, ms since 1970. */
  heard(socket: WebSocket): number {
    const answered = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(linkOf(socket).opened, answered);
  }

  /**
   * When a socket was last useful. Pings are answered by the runtime, so an idle socket without a hello would
   * otherwise stay open.
   */
  #spoken(socket: WebSocket): number {
    const { state, opened } = linkOf(socket);
    return state === "opened" ? opened : this.heard(socket);
  }

  /** When the next silence check is due; null without sockets. Silence counts from before a restart. */
  nextCheck(): number | null {
    const open = this.#open();
    if (open.length === 0) return null;
    this.#checkDue ??= Math.min(...open.map((socket) => this.#spoken(socket))) + CHECK_PINGS * this.#pingMs();
    return this.#checkDue;
  }

  /** A connection was opened, whose first check comes early. */
  opened(now: number): void {
    this.#checkDue = now + FIRST_CHECK_PINGS * this.#pingMs();
  }

  /** Closes silent sockets: a half-open connection looks open. Writes nothing while there are none. */
  check(now: number): void {
    if (this.#checkDue !== null && this.#checkDue <= now) this.#checkDue = null;
    for (const socket of this.#open()) {
      const seen = this.heard(socket);
      if (now - this.#spoken(socket) <= DEAD_PINGS * this.#pingMs()) continue;
      close(socket, GOING_AWAY, "nothing was heard of the agent");
      this.lost(socket, seen);
    }
  }

  /** Sends this node's session change to the registry; inside a transaction. */
  #enqueueUpdate(): void {
    this.object.outbox.enlistLatest("agent", "", null);
  }

  /** The agent's ping interval. */
  #pingMs(): number {
    return settings(this.object.env).AGENT_PING_MS;
  }

  /** The given volume ids that the registry does not know. Never rejects. */
  async #unknownVolumes(held: readonly string[]): Promise<string[]> {
    if (held.length === 0) return [];
    const { env, name: node } = this.object;
    try {
      return await within(ASK_MS, clusterRegistry(env).unknownVolumes(node, held));
    } catch (failure) {
      // The next hello reports them again; they are only reported.
      warn("volumes-not-asked-for", { node, because: textOf(failure) });
      return [];
    }
  }

  #open(): WebSocket[] {
    return this.ctx.getWebSockets().filter((socket) => linkOf(socket).state !== "over");
  }

  /** Why a connection is refused as outdated, or null. */
  #newerThan({ number }: Link, { epoch }: Hello): string | null {
    const { epoch: known } = this.record.row;
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
