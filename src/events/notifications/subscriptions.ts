import type { Bounds } from "../../contracts/event-log.ts";
import type { NotifiedPage } from "../../contracts/event-relay.ts";
import type { NotificationRequest } from "../../contracts/notification.ts";
import { matchesGlob } from "../../lib/glob.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { settings } from "../../platform/settings.ts";
import { accessControl, eventLog } from "../../rpc/stubs.ts";
import { newestGap, notifiesOfAccount } from "../account-gaps.ts";
import { PermissionsUnavailable } from "../permissions.ts";
import { Frames, serverSentHeartbeat } from "./frames.ts";
import { Notifier, type Sink, type Subscriber } from "./notifier.ts";
import { type Kept, SocketSink, StreamSink } from "./sinks.ts";
import { gapNotice, NOTIFICATION_TYPES } from "./upstream-events.ts";

/** Bounds of the subscriptions that a relay serves. */
const MAX_SUBSCRIBERS = 30_000;
const MAX_PER_TOKEN = 10_000;
/** How often an idle relay checks the log for lines whose call was lost. */
const CHECK_MS = 60_000;
const TIMEOUT_MS = 10_000;
/** Close codes of RFC 6455. */
const NORMAL = 1000;
const UNEXPECTED_DATA = 1008;
const SERVICE_RESTART = 1012;

/**
 * The subscriptions to event notifications of one relay: hibernating sockets, which the log wakes, and streams of
 * server-sent events. Stores nothing: a socket keeps its subscription and its place in its attachment.
 */
export class NotificationSubscriptions {
  readonly #notifier: Notifier;
  readonly #sockets = new Map<WebSocket, Subscriber>();
  readonly #streams = new Map<StreamSink, Subscriber>();
  #isRestored = false;
  /** Null until the log knows of the subscribers, as after hibernation. */
  #registered: { readonly secrets: boolean; readonly missing: number } | null = null;
  /** Subscriptions being opened, for which the log must not forget this relay. */
  #opening = 0;
  #alarmAt = Number.POSITIVE_INFINITY;
  #heartbeat: ReturnType<typeof setInterval> | undefined;

  constructor(
    private readonly ctx: DurableObjectState,
    private readonly env: () => Env,
    private readonly name: string,
  ) {
    this.#notifier = new Notifier(
      { lines: (cursor) => eventLog(env()).lines(cursor, null) },
      (questions) => accessControl(env()).mayStream(questions),
      () => settings(env()).EVENT_STALL_MS,
      () => this.#arm(),
    );
  }

  /** Opens a subscription: 101, or 200 with a stream; 403, 429 or 503 with the reason. */
  async open(request: NotificationRequest): Promise<Response> {
    this.#opening += 1;
    try {
      return await this.#open(request);
    } finally {
      this.#opening -= 1;
    }
  }

  async #open(request: NotificationRequest): Promise<Response> {
    this.#restore();
    if (this.#notifier.count >= MAX_SUBSCRIBERS) return refused(503, "too many subscriptions");
    if (this.#notifier.subscribersOf(request.accessor) >= MAX_PER_TOKEN) {
      return refused(429, "too many subscriptions of this token");
    }
    try {
      // Before the bounds: each later line is told of.
      const missing = await this.#register(mayWantSecrets(request.pattern));
      const bounds = await within(TIMEOUT_MS, eventLog(this.env()).bounds());
      const permission = await this.#notifier.admit(request, bounds.newest);
      if (permission === null) return refused(403, "permission denied");
      const from = firstIndex(request.from, bounds);
      const sees = (account: string) => notifiesOfAccount(request, permission.scope.paths, account);
      const gap = newestGap(bounds.gaps ?? [], sees);
      const oldest = gap < from ? bounds.oldest : Math.max(bounds.oldest, gap + 1);
      const headers = { "x-oldest-index": String(oldest), "x-start-index": String(from) };
      const hasGap = request.from >= 0 && from <= missing && mayWantSecrets(request.pattern);
      const add = (sink: Sink) => {
        const subscriber = this.#notifier.add(request, permission, from - 1, sink);
        if (hasGap) sink.send(new Frames(gapNotice(from, missing + 1, Date.now())).in(request.format));
        return subscriber;
      };
      const response =
        request.format === "server-sent-events" ? this.#stream(add, headers) : this.#socket(add, request, headers);
      this.#arm();
      this.#notifier.reach(bounds.newest);
      return response;
    } catch (failure) {
      const isKnown = failure instanceof PermissionsUnavailable;
      if (!isKnown) warn("subscription-not-opened", { relay: this.name, because: textOf(failure) });
      return refused(503, "the subscription cannot be opened now; try again");
    }
  }

  /** @returns the number of subscribers, with those that are being opened */
  notify(page: NotifiedPage): number {
    this.#restore();
    const count = this.#notifier.count + this.#opening;
    if (count === 0) this.#registered = null;
    // Also for one that is being opened: the answer about its rights may be older than these lines.
    if (count > 0) this.#notifier.lines(page);
    return count;
  }

  /** A subscriber has nothing to say. */
  unexpected(socket: WebSocket): void {
    this.#restore();
    this.#gone(socket, UNEXPECTED_DATA, "a subscriber sends no data");
  }

  /** The client closed its socket, or is lost. */
  closed(socket: WebSocket): void {
    this.#restore();
    this.#gone(socket, NORMAL, "");
  }

  /** Asks again about rights that are due, and repairs what was lost. */
  async check(): Promise<void> {
    this.#restore();
    this.#alarmAt = Number.POSITIVE_INFINITY;
    if (this.#notifier.count === 0) return;
    try {
      this.#registered = null;
      await this.#register(this.#notifier.some(({ pattern }) => mayWantSecrets(pattern)));
      const { newest } = await within(TIMEOUT_MS, eventLog(this.env()).bounds());
      // A restored log assigns the same indexes again.
      for (const subscriber of this.#notifier.beyond(newest)) {
        this.#notifier.remove(subscriber);
        subscriber.sink.close(SERVICE_RESTART, "the event log was restored");
      }
      this.#notifier.reach(newest);
    } catch (failure) {
      warn("subscriptions-not-checked", { relay: this.name, because: textOf(failure) });
    }
    this.#arm();
  }

  #socket(add: (sink: Sink) => Subscriber, request: NotificationRequest, headers: Record<string, string>): Response {
    const { 0: client, 1: socket } = new WebSocketPair();
    this.ctx.acceptWebSocket(socket);
    const subscriber = add(new SocketSink(socket, request));
    subscriber.sink.keep(subscriber.cursor);
    this.#sockets.set(socket, subscriber);
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  #stream(add: (sink: Sink) => Subscriber, headers: Record<string, string>): Response {
    const sink = new StreamSink(() => {
      const subscriber = this.#streams.get(sink);
      if (subscriber) this.#notifier.remove(subscriber);
      this.#streams.delete(sink);
      this.#beat();
    });
    const subscriber = add(sink);
    this.#streams.set(sink, subscriber);
    // The head of the response is sent with the first bytes.
    sink.send(serverSentHeartbeat(Math.max(0, subscriber.cursor)));
    this.#beat();
    return new Response(sink.body, { headers });
  }

  /** Starts or ends the signs of life of streams. */
  #beat(): void {
    clearInterval(this.#heartbeat);
    if (this.#streams.size === 0) return;
    this.#heartbeat = setInterval(() => {
      for (const [sink, { cursor }] of this.#streams) sink.heartbeat(cursor);
    }, settings(this.env()).EVENT_HEARTBEAT_MS);
  }

  #gone(socket: WebSocket, code: number, reason: string): void {
    const subscriber = this.#sockets.get(socket);
    if (subscriber) this.#notifier.remove(subscriber);
    this.#sockets.delete(socket);
    try {
      // The runtime does not answer a close of a hibernating socket.
      socket.close(code, reason);
    } catch {
      // Already closed.
    }
  }

  /** The subscriptions of the sockets that have outlived the object's memory. */
  #restore(): void {
    if (this.#isRestored) return;
    this.#isRestored = true;
    for (const socket of this.ctx.getWebSockets()) {
      const kept = socket.deserializeAttachment() as Kept | null;
      if (!kept || socket.readyState !== WebSocket.OPEN) continue;
      const { request, cursor } = kept;
      this.#sockets.set(socket, this.#notifier.add(request, null, cursor, new SocketSink(socket, request)));
    }
    if (this.#notifier.count > 0) this.#arm();
  }

  /** @returns the index up to which events of secrets may be missing */
  async #register(secrets: boolean): Promise<number> {
    const known = this.#registered;
    if (known !== null && (known.secrets || !secrets)) return known.missing;
    const missing = await within(TIMEOUT_MS, eventLog(this.env()).notifyRelay(this.name, secrets));
    this.#registered = { secrets, missing };
    return missing;
  }

  /** Sets the alarm for the next question about rights, or the next check. It keeps its time during hibernation. */
  #arm(): void {
    if (this.#notifier.count === 0) return;
    const now = Date.now();
    const at = Math.max(now + 1, Math.min(this.#notifier.nextAsk, now + CHECK_MS));
    if (at >= this.#alarmAt) return;
    this.#alarmAt = at;
    this.ctx.waitUntil(this.ctx.storage.setAlarm(at));
  }
}

const mayWantSecrets = (pattern: string): boolean =>
  NOTIFICATION_TYPES.Secret?.some((type) => matchesGlob(type, pattern)) === true;

/** The first index: the asked one, or the next one for a negative index and for one that was not given out yet. */
const firstIndex = (from: number, { newest, assigned = newest }: Bounds): number =>
  from < 0 || from > assigned + 1 ? newest + 1 : Math.max(from, 1);

const refused = (status: number, text: string): Response => new Response(text, { status });
