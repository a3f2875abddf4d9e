import type { Append, NewEvent } from "../contracts/event.ts";
import type { Bounds, EventLogApi, FeedPage } from "../contracts/event-log.ts";
import type { AlertsView, NamedRule, NotificationRule } from "../contracts/notification-rule.ts";
import { Alerts, MAX_RULES } from "../events/alerts/alerts.ts";
import { channelSubscription } from "../events/alerts/channel-names.ts";
import { testEvent } from "../events/alerts/message.ts";
import { alertMigrations } from "../events/alerts/schema.ts";
import { feedPage, type LogView } from "../events/group.ts";
import type { Line } from "../events/line.ts";
import { LineStore, lineMigrations } from "../events/line-store.ts";
import { NotifiedRelays } from "../events/notifications/notified-relays.ts";
import { SecretDemand } from "../events/notifications/secret-demand.ts";
import type { Readers } from "../events/readers.ts";
import { Ring } from "../events/ring.ts";
import { subscriberMigrations } from "../events/schema.ts";
import { Subscribers } from "../events/subscriptions/subscribers.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { NOTHING } from "../platform/durable/object-context.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { accessControl, eventRelay, eventSubscription, kvStore } from "../rpc/stubs.ts";
import { readerSeries, readersOf, stream } from "./event-streams.ts";

/**
 * Owns the one sequence of cluster events: single writer (`append`, in order of arrival), any number of readers, each a
 * pulling cursor. The newest lines are in memory, the whole buffer is in storage.
 */
export class EventLog extends StoredObject implements EventLogApi {
  readonly #store: LineStore;
  readonly #ring = new Ring();
  readonly #view: LogView;
  readonly #readers: Readers;
  readonly #subscribers: Subscribers;
  readonly #notified: NotifiedRelays;
  readonly #secretDemand: SecretDemand;
  readonly #alerts: Alerts;
  /** The newest durable index, and the newest published one. */
  #durable: number;
  /** Appended lines that are not published yet. */
  #unpublished: Line[] = [];
  #publishing: Promise<void> | undefined;

  protected override get kind() {
    return "event-log" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { events: lineMigrations, subscribers: subscriberMigrations, alerts: alertMigrations }, {});
    this.#store = new LineStore(this.sql);
    this.#durable = this.#store.newest;
    this.#view = {
      newest: () => this.#durable,
      evicted: () => Math.max(0, this.#store.oldest - 1),
      gaps: (cursor) => (this.#ring.covers(cursor) ? [] : this.#store.gaps.filter(({ upTo }) => upTo > cursor)),
      after: (cursor, traces) => {
        const lines = this.#ring.after(cursor);
        return lines ? { lines, upTo: this.#store.newest } : this.#store.after(cursor, traces);
      },
    };
    this.#readers = readersOf(this.#view, () => this.env);
    this.#subscribers = new Subscribers(this.sql, (name, newest) => eventSubscription(this.env, name).wake(newest));
    this.#notified = new NotifiedRelays({
      sql: this.sql,
      pageAfter: (cursor) => feedPage(this.#view, cursor, null),
      newest: () => this.#durable,
      notify: (name, page) => eventRelay(this.env, name).notify(page),
      forget: (name) =>
        this.commit(() => {
          this.#notified.remove(name);
          this.#secretDemand.remove(name, Date.now());
        }, NOTHING),
    });
    this.#secretDemand = new SecretDemand({
      sql: this.sql,
      commit: (change) => this.commit(change, NOTHING),
      newest: () => this.#store.newest,
      tell: (epoch, on) => accessControl(this.env).publishSecrets(epoch, on),
      publish: (mount, epoch) => kvStore(this.env, mount).publishEvents(epoch),
    });
    this.#alerts = new Alerts(
      this.sql,
      () => this.env,
      (change) => this.#appendOwn(change),
    );
  }

  async append(source: string, entries: readonly Append[]): Promise<number[]> {
    return this.#appendWith(source, () => entries);
  }

  /** Appends lines, and makes the change that they are about in the same transaction. */
  async #appendWith(source: string, change: () => readonly Append[]): Promise<number[]> {
    const { EVENT_BUFFER_LINES: maxLines, EVENT_BUFFER_BYTES: maxBytes } = settings(this.env);
    const { indexes, lines } = this.commit(() => {
      const appended = this.#store.append(source, change());
      this.#store.trim(maxLines, maxBytes);
      return appended;
    });
    for (const line of lines) {
      this.#ring.push(line);
      this.#unpublished.push(line);
    }
    const newest = this.#store.newest;
    while (this.#durable < newest) {
      this.#publishing ??= this.#publish();
      await this.#publishing;
    }
    this.#notified.notifyFirst();
    return indexes;
  }

  newest(): number {
    return Math.max(1, this.#store.newest);
  }

  state(): ReturnType<EventLogApi["state"]> {
    const { lines, bytes, oldest, newest } = this.#store;
    return { lines, bytes, oldest, newest, readers: this.#readers.count };
  }

  bounds(): Bounds {
    const { oldest, gaps } = this.#store;
    return { oldest, newest: this.#durable, assigned: this.newest(), gaps };
  }

  lines(cursor: number, traces: readonly string[] | null): FeedPage {
    return feedPage(this.#view, cursor, traces);
  }

  /** Opens a stream: of a `Subscription`, or at `/feed` a relay's stream of every line `after` an index. */
  override async fetch(request: Request): Promise<Response> {
    if (new URL(request.url).pathname !== "/feed") {
      return stream(this.#readers, await request.json(), request.signal, this.bounds());
    }
    const { relay, after } = await request.json<{ relay: string; after: number }>();
    return new Response(this.#readers.follow(relay, after, request.signal));
  }

  relays(): string[] {
    return this.#readers.relays;
  }

  subscriptions(): readonly string[] {
    return this.#subscribers.names();
  }

  setSubscription(name: string, exists: boolean): boolean {
    return this.commit(() => this.#subscribers.set(name, exists), NOTHING);
  }

  async notifyRelay(name: string, secrets = false): Promise<number> {
    this.commit(() => this.#notified.register(name), NOTHING);
    const topics = settings(this.env).SERVICE_EVENTS;
    return secrets && topics !== "" && !topics.includes("Secret") ? this.#secretDemand.require(name) : 0;
  }

  unwantedSecrets(): number | null {
    return this.#secretDemand.endIfUnwanted(Date.now());
  }

  notificationRules(): readonly NamedRule[] {
    return this.#alerts.rules();
  }

  async writeNotificationRule(name: string, rule: NotificationRule): Promise<Result<null>> {
    const subscriptions = this.#subscribers.names();
    const missing = rule.channels.find((channel) => !subscriptions.includes(channelSubscription(channel)));
    if (missing !== undefined) return refuse("invalid", `channels: there is no channel ${missing}`);
    const written = await this.#alerts.write(name, rule);
    return written ? ok(null) : refuse("exhausted", `there are too many notification rules: at most ${MAX_RULES}`);
  }

  async deleteNotificationRule(name: string): Promise<null> {
    await this.#alerts.delete(name);
    return null;
  }

  alerts(): AlertsView {
    return this.#alerts.view();
  }

  async testChannel(channel: string): Promise<Result<number>> {
    if (!this.#subscribers.names().includes(channelSubscription(channel))) return refuse("missing");
    const [index = 0] = await this.#appendOwn(() => [testEvent(channel, Date.now())]);
    return ok(index);
  }

  /** Appends lines of the log's own, one per event. An index is never given out twice, so it numbers them, too. */
  #appendOwn(change: () => readonly NewEvent[]): Promise<number[]> {
    return this.#appendWith("notifications", () => {
      const events = change();
      return events.map((event, at) => ({ seq: this.#store.newest + 1 + at, events: [event] }));
    });
  }

  protected override measured(now: number): Series[] {
    const { lines, bytes, newest } = this.#store;
    const oldestAt = this.#store.oldestAt();
    return [
      ...readerSeries(this.#readers, "log"),
      series("sallyport_event_relays", this.#readers.relays.length),
      series("sallyport_event_buffer_lines", lines),
      series("sallyport_event_buffer_bytes", bytes),
      series("sallyport_event_index", newest),
      ...(oldestAt === null
        ? []
        : [series("sallyport_event_buffer_oldest_age_seconds", Math.max(0, now - oldestAt) / 1000)]),
    ];
  }

  protected override ownDeadline(): number | null {
    return this.#alerts.nextDue();
  }

  protected override async onAlarm(now: number): Promise<void> {
    const due = this.#alerts.nextDue();
    if (due !== null && due <= now) await this.#alerts.evaluate();
  }

  protected override onRollback(): void {
    this.#store.reload();
    this.#subscribers.forget();
    this.#notified.reload();
    this.#alerts.forget();
  }

  /**
   * Publishes lines once they are on disk. RPC answers wait for durability by themselves; open streams do not. A reader
   * could otherwise see a line that a crash rolls back, and the next line would reuse its index. Appends during a sync
   * share the next one.
   */
  async #publish(): Promise<void> {
    const lines = this.#unpublished;
    const newest = this.#store.newest;
    this.#unpublished = [];
    try {
      await this.ctx.storage.sync();
    } finally {
      this.#publishing = undefined;
    }
    this.#durable = newest;
    this.#readers.wake(lines);
    this.#notified.notify();
    void this.#subscribers.notify(newest);
  }
}
