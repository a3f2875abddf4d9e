import {
  CLOSE,
  PING,
  PONG,
  parseAgentFrame,
  type Res,
  SUBPROTOCOL,
  slowDown,
  TOKEN_SECONDS,
} from "@sallyport/agent-protocol";
import type { Operation } from "../contracts/node-operation.ts";
import type { ConnectRequest, NodeSessionApi, SessionState } from "../contracts/node-session.ts";
import { earliest } from "../lib/earliest.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { within } from "../lib/timeout.ts";
import { AgentOperations } from "../node-agents/agent-operations.ts";
import { Connections } from "../node-agents/connections.ts";
import { Dispatch, frameRefusal } from "../node-agents/dispatch.ts";
import { FrameBudget } from "../node-agents/frame-budget.ts";
import { close, type Link, linkOf } from "../node-agents/link.ts";
import { OperationSecrets } from "../node-agents/operation-secrets.ts";
import { Outcomes } from "../node-agents/outcomes.ts";
import { sessionMigrations } from "../node-agents/schema.ts";
import { SessionRecord } from "../node-agents/session-record.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { isFrozen, QUIESCE_MS } from "../platform/durable/snapshot/frozen.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { clusterRegistry } from "../rpc/stubs.ts";

/** An agent lost within this time may reconnect shortly, as after a deployment. */
const RECONNECT_GRACE_MS = 30_000;
const COMEBACK_MS = 5_000;
/** Maximum of connections per agent within the lifetime of a token. */
const MAX_CONNECTS = 60;
const SLOW_DOWN_MS = 30_000;
const OPERATIONS_PER_TURN = 100;

/**
 * Owns the session of one node's agent: its hibernating WebSocket, and the operations sent to it. No caller waits here
 * for an operation: results are committed on arrival and delivered to their owner through the outbox.
 *
 *   absent ──fetch, hello──> connected ──close, missed pings──> lost ──reconnect──> connected
 *     any state ──revoke──> removed
 */
export class NodeSession extends StoredObject implements NodeSessionApi {
  readonly #node: string;
  readonly #record: SessionRecord;
  readonly #operations: AgentOperations;
  readonly #outcomes: Outcomes;
  readonly #secrets: OperationSecrets;
  readonly #connections: Connections;
  readonly #dispatch: Dispatch;
  readonly #budgets = new WeakMap<WebSocket, FrameBudget>();
  /** Resolves when an agent connects. */
  #connected = Promise.withResolvers<void>();

  protected override get kind() {
    return "node-session" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, session: sessionMigrations },
      {
        agent: () => this.#updateRegistry(),
        result: (_key, rows) => this.#outcomes.deliver(rows),
        "key-holder": () => this.#secrets.deliver(),
      },
    );
    this.#node = this.context.name;
    this.#record = new SessionRecord(this.sql);
    this.#operations = new AgentOperations(this.sql);
    this.#secrets = new OperationSecrets(this.context, this.#record);
    this.#outcomes = new Outcomes(this.context, this.#secrets);
    this.#connections = new Connections(this.context, ctx, this.#record, this.#operations);
    this.#dispatch = new Dispatch(this.context, this.#operations, this.#connections, this.#outcomes, this.#secrets);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    // After a deployment the sockets are gone without a close event.
    this.whenResumed(() => {
      const { live, seen } = this.#record.row;
      if (live !== null && !this.#connections.live()) this.#connections.lose(seen ?? 0);
    });
  }

  // ---- the service's side ----

  /**
   * Accepts an operation: from then on its outcome will be delivered. Idempotent by id; a repeat for an unknown outcome
   * retries immediately.
   * @returns a refusal, with nothing accepted, when the agent is not connected, would not accept the frame, or a newer
   * intent for the key was accepted
   */
  async start(operation: Operation): Promise<Result<null>> {
    if (this.#dispatch.isKnown(operation)) return ok(null);
    const refusal = frameRefusal(operation);
    if (refusal) return refusal;
    // An agent that is gone without a close would be noticed at the next check only.
    if (!this.isFrozen) this.#connections.check(Date.now());
    if (!this.#connections.live()) {
      if (!(await this.#reconnects())) return refuse("unavailable", `the agent of node ${this.#node} is not connected`);
      if (this.#dispatch.isKnown(operation)) return ok(null);
    }
    if (this.#operations.fence(operation.key) > operation.gen)
      return refuse("conflict", `${operation.key}: a newer operation was taken on before`);
    const taken = this.#dispatch.take(operation);
    const { id, method, key } = operation;
    if (taken.ok) recordAction("operation-begun", { node: this.#node, operation: id, method, about: key });
    return taken;
  }

  state(): SessionState {
    const live = this.#connections.live();
    return {
      seen: live ? this.#connections.heard(live.socket) : this.#record.row.seen,
      inFlight: live ? this.#operations.inFlight(live.id) : 0,
      queued: this.#operations.queued(),
    };
  }

  /** Removes the node's agent: closes its connection and stops sending operations. */
  async revoke(): Promise<void> {
    const now = Date.now();
    this.commit(() => {
      if (!this.#record.row.revoked) this.#record.revoke(now);
      this.#secrets.unregister();
      this.#abandon(now);
    });
    for (const socket of this.ctx.getWebSockets()) close(socket, CLOSE.revoked, REMOVED);
    await this.outbox.drain("result");
  }

  /** The node was purged. While its agent is connected the node exists, so it is registered again. */
  async purged(): Promise<void> {
    if (!this.#connections.live()) return;
    this.commit(() => {
      this.#record.resend();
      this.outbox.enlistLatest("agent", "", null);
    });
    await this.outbox.drain("agent");
  }

  rekey(term: number): void {
    this.#secrets.rotate(term);
  }

  // ---- the agent's side ----

  /** Opens a connection for an agent whose token was verified by the Worker; the query contains its identity. */
  override async fetch(request: Request): Promise<Response> {
    const asked = JSON.parse(new URL(request.url).searchParams.get("asked") ?? "") as ConnectRequest;
    const now = Date.now();
    // A token expires once its creation is further in the past than clocks may differ.
    const until = (asked.issued + TOKEN_SECONDS) * 1_000 + 1;
    const isFirst = this.commit(() => this.#record.useToken(asked.jti, until, MAX_CONNECTS, now));
    if (isFirst === null) return refused(429, "too many connections of this agent", { "Retry-After": "60" });
    if (!isFirst) return refused(401, "Authorization: the token has been used");
    const number = this.commit(() => this.#record.opened());
    const { 0: client, 1: socket } = new WebSocketPair();
    const link: Link = {
      id: crypto.randomUUID(),
      number,
      opened: now,
      state: "opened",
      epoch: 0,
      proto: 0,
      pool: asked.pool,
      boundName: asked.boundName,
    };
    this.ctx.acceptWebSocket(socket, [link.id]);
    socket.serializeAttachment(link);
    this.#connections.opened(now);
    this.commit(() => undefined);
    // The Worker read the key before it was deleted.
    if (this.#record.row.revoked) close(socket, CLOSE.revoked, REMOVED);
    return new Response(null, { status: 101, webSocket: client, headers: { "Sec-WebSocket-Protocol": SUBPROTOCOL } });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (this.isFrozen) await this.resumed();
    const link = linkOf(socket);
    if (link.state === "over") return;
    try {
      await this.#onMessage(socket, link, message);
    } catch (failure) {
      if (!isFrozen(failure)) throw failure;
      // The agent reconnects and resends unacknowledged frames.
      close(socket, CLOSE.slowDown, slowDown(QUIESCE_MS));
    } finally {
      // The outcome may have to be delivered.
      await this.outbox.drain("agent");
    }
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    if (this.isFrozen) await this.resumed();
    this.#connections.lost(socket);
    // The runtime does not answer a close of a hibernating socket, and the agent would wait for it.
    close(socket, NORMAL, "");
    await this.outbox.drain("agent");
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.webSocketClose(socket);
  }

  // ---- inside ----

  async #onMessage(socket: WebSocket, link: Link, message: string | ArrayBuffer): Promise<void> {
    const drop = (code: number, reason: string) => void this.#connections.drop(socket, code, reason);
    const size = typeof message === "string" ? message.length : message.byteLength;
    if (!this.#budgetOf(socket).spend(size, Date.now())) return drop(CLOSE.slowDown, slowDown(SLOW_DOWN_MS));
    if (typeof message !== "string") return drop(CLOSE.protocol, "a frame is not text");
    const parsed = parseAgentFrame(message);
    if (!parsed.ok) {
      // A newer agent may send frames unknown to this version.
      if (parsed.reason !== "unknown") drop(CLOSE.protocol, parsed.message);
      return;
    }
    const { frame } = parsed;
    if (frame.t === "hello") {
      if (await this.#connections.hello(socket, link, frame)) this.#welcomed();
      return;
    }
    if (link.id !== this.#record.row.live) return drop(CLOSE.protocol, `${frame.t} before welcome`);
    if (frame.t === "fp") return this.#connections.changed(socket, link, frame);
    if (frame.t === "vols") return this.#connections.volumesChanged(socket, frame);
    // Acks need no action: operations without a result are resent in any case.
    if (frame.t === "res") await this.#onResult(socket, frame);
  }

  #welcomed(): void {
    this.#dispatch.pump();
    this.#connected.resolve();
    this.#connected = Promise.withResolvers();
  }

  async #onResult(socket: WebSocket, frame: Res): Promise<void> {
    const row = this.#operations.find(frame.op);
    if (row?.sends === 0) {
      this.#connections.drop(socket, CLOSE.protocol, "res: the operation was not sent");
      return;
    }
    const key = this.#dispatch.ended(socket, row, frame);
    if (key === null) return;
    this.#budgetOf(socket).giveBack();
    await this.outbox.drain("result", key);
  }

  #budgetOf(socket: WebSocket): FrameBudget {
    const budget = this.#budgets.get(socket) ?? new FrameBudget();
    this.#budgets.set(socket, budget);
    return budget;
  }

  /** Whether the agent reconnects; a recently lost one gets a moment. */
  async #reconnects(): Promise<boolean> {
    const { lost, revoked } = this.#record.row;
    if (revoked || lost === null || Date.now() - lost > RECONNECT_GRACE_MS) return false;
    await within(COMEBACK_MS, this.#connected.promise).catch(() => undefined);
    return this.#connections.live() !== null;
  }

  #abandon(now: number): void {
    for (const outcome of this.#operations.abandon(now, OPERATIONS_PER_TURN)) this.#outcomes.enqueue(outcome);
  }

  protected override onRollback(): void {
    this.#record.forget();
  }

  /** Each alarm checks for silence, so that the time of the check need not be stored. */
  protected override onAnyAlarm(now: number): void {
    this.#connections.check(now);
  }

  protected override ownDeadline(): number | null {
    // Open operations of a removed node are abandoned step by step.
    const owed = this.#record.row.revoked && this.#operations.anyOpen() ? 0 : null;
    return earliest(this.#connections.nextCheck(), this.#operations.nextDue(), owed);
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.commit(() => {
      if (this.#record.row.revoked) this.#abandon(now);
      for (const outcome of this.#operations.tick(now, OPERATIONS_PER_TURN)) this.#outcomes.enqueue(outcome);
    });
    this.#dispatch.pump();
  }

  async #updateRegistry(): Promise<() => void> {
    const registry = clusterRegistry(this.env);
    const change = this.#record.change();
    let updated = await registry.agentNews(this.#node, change);
    // The node was purged meanwhile although it exists.
    if (!updated.ok && updated.reason === "missing" && change.connectedSince !== null)
      updated = await registry.agentNews(this.#node, this.#record.change({ whole: true }));
    if (!updated.ok && change.connectedSince !== null) this.#connections.refused(updated.message);
    return () => this.#record.acknowledge(change.seq);
  }
}

/** RFC 6455, 7.4.1. */
const NORMAL = 1000;

const REMOVED = "the agent of this node was removed";

const refused = (status: number, text: string, headers: Record<string, string> = {}): Response =>
  new Response(text, { status, headers });
