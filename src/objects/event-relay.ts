import { DurableObject } from "cloudflare:workers";
import type { Bounds } from "../contracts/event-log.ts";
import type { EventRelayApi, NotifiedPage } from "../contracts/event-relay.ts";
import type { NotificationRequest } from "../contracts/notification.ts";
import { Feed } from "../events/feed.ts";
import { NotificationSubscriptions } from "../events/notifications/subscriptions.ts";
import type { Readers } from "../events/readers.ts";
import type { Subscription } from "../events/subscription.ts";
import { objectStub } from "../platform/durable/jurisdiction.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";
import { settings } from "../platform/settings.ts";
import { eventLog } from "../rpc/stubs.ts";
import { readerSeries, readersOf, stream } from "./event-streams.ts";

/**
 * Serves streams and event notifications close to their readers, and is itself one reader of the log. It stores
 * nothing: after a restart its readers resume by index at any server.
 */
export class EventRelay extends DurableObject<Env> implements EventRelayApi {
  readonly #feed: Feed;
  readonly #readers: Readers;
  readonly #notifications: NotificationSubscriptions;
  /** Streams being opened. */
  #opening = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#feed = new Feed(
      {
        bounds: () => eventLog(this.env).bounds(),
        follow: (after, signal) => this.#follow(after, signal),
        lines: (after, traces) => eventLog(this.env).lines(after, traces),
      },
      {
        hasReaders: () => this.#opening + this.#readers.count > 0,
        onLines: (lines, lost) => {
          if (lost) this.#readers.invalidateAll();
          this.#readers.wake(lines);
        },
        timeouts: () => {
          const { EVENT_HEARTBEAT_MS: idleMs, EVENT_STALL_MS: silentMs } = settings(this.env);
          return { idleMs, silentMs: Math.max(silentMs, 2 * idleMs) };
        },
      },
    );
    this.#readers = readersOf(this.#feed, () => this.env);
    this.#notifications = new NotificationSubscriptions(ctx, () => this.env, this.#name);
  }

  state(): ReturnType<EventRelayApi["state"]> {
    return { newest: this.#feed.newest(), readers: this.#readers.count, following: this.#feed.following };
  }

  vitals(): HealthStats {
    return {
      bytes: this.ctx.storage.sql.databaseSize,
      outbox: { rows: 0, oldestMs: 0 },
      alarmLagMs: 0,
      series: readerSeries(this.#readers, this.#name),
    };
  }

  notify(page: NotifiedPage): number {
    return this.#notifications.notify(page);
  }

  override webSocketMessage(socket: WebSocket): void {
    this.#notifications.unexpected(socket);
  }

  override webSocketClose(socket: WebSocket): void {
    this.#notifications.closed(socket);
  }

  override webSocketError(socket: WebSocket): void {
    this.#notifications.closed(socket);
  }

  override alarm(): Promise<void> {
    return this.#notifications.check();
  }

  /** Opens a subscription to event notifications, or a stream; then the body is a `Subscription`. Same answers as the log; 503 also while the log is unreachable. */
  override async fetch(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === "/notifications") {
      return this.#notifications.open(JSON.parse(url.searchParams.get("request") ?? "") as NotificationRequest);
    }
    const subscription = await request.json<Subscription>();
    this.#opening += 1;
    try {
      const bounds = await this.#joined();
      if (!bounds) return new Response(null, { status: 503 });
      // The bounds come from the log: a relay lags, and holds some lines for longer.
      return await stream(this.#readers, subscription, request.signal, bounds);
    } finally {
      this.#opening -= 1;
    }
  }

  get #name(): string {
    return this.ctx.id.name ?? this.ctx.id.toString();
  }

  async #joined(): Promise<Bounds | null> {
    try {
      return await this.#feed.join();
    } catch (failure) {
      warn("relay-cut-off", { relay: this.#name, because: textOf(failure) });
      return null;
    }
  }

  async #follow(after: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const { body } = await objectStub(this.env, this.env.EVENT_LOG, "log").fetch("https://event-log/feed", {
      method: "POST",
      body: JSON.stringify({ relay: this.#name, after }),
      signal,
    });
    if (!body) throw new Error("the log gives no feed");
    return body;
  }
}
