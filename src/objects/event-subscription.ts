import type { Bounds } from "../contracts/event-log.ts";
import type {
  DeadLetter,
  Delivery,
  DeliveryReport,
  EventSubscriptionApi,
  MessageType,
  SubscriptionView,
  SubscriptionWrite,
  Target,
} from "../contracts/event-subscription.ts";
import { newestGap, seesAccount } from "../events/account-gaps.ts";
import { matcher } from "../events/subscription.ts";
import { batchOf } from "../events/subscriptions/batch.ts";
import { formats, isMessageType } from "../events/subscriptions/formats/formats.ts";
import {
  definitionOf,
  SubscriptionRecord,
  type SubscriptionRow,
  TARGET_CONTEXT,
} from "../events/subscriptions/record.ts";
import { subscriptionMigrations } from "../events/subscriptions/schema.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { DataKeys, dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { NOTHING } from "../platform/durable/object-context.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { WakeUp } from "../platform/durable/wake-up.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { accessControl, eventLog } from "../rpc/stubs.ts";

const ALL = "*";
/** Interval at which the log is checked for lines whose wake-up was lost. */
const CHECK_MS = 60_000;

/**
 * Delivers lines of the event log to one webhook, or to the bound queue: in order, at least once. Owns the cursor, the
 * batch being delivered and the dead letters; a Worker that leases a batch does the sending (`deliver.ts`).
 */
export class EventSubscription extends StoredObject implements EventSubscriptionApi {
  readonly #name: string;
  readonly #keys: DataKeys;
  readonly #record: SubscriptionRecord;
  readonly #wakeUp: WakeUp;
  /** Time of the last check of the log; null before the first alarm of this instance. */
  #checkedAt: number | null = null;
  readonly #startedAt = Date.now();

  protected override get kind() {
    return "event-subscription" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, subscription: subscriptionMigrations },
      { registration: () => this.#register() },
    );
    this.#name = ctx.id.name ?? ctx.id.toString();
    this.#keys = new DataKeys(this.sql, `event-subscription ${this.#name}`, () => masterKey(this.env));
    this.#record = new SubscriptionRecord(this.sql);
    this.#wakeUp = new WakeUp(env.SYNC_WORK, this.#name, "subscription");
  }

  /** Creates or changes the subscription. */
  async write(given: SubscriptionWrite): Promise<Result<null>> {
    const { namespace } = given;
    this.#wakeUp.resume();
    if (given.type === "queue" && !this.env.EVENT_QUEUE)
      return refuse("invalid", "Target.Type: EVENT_QUEUE is not bound");
    const place = await this.#namespace(namespace);
    if (!place.ok) return place;
    const bounds = await eventLog(this.env).bounds();
    const { newest } = bounds;
    const checked = this.#sealed(given);
    if (!checked.ok) return checked;
    if (!(await eventLog(this.env).setSubscription(this.#name, true))) {
      return refuse("exhausted", "there are too many subscriptions");
    }
    // Sealed again, because the secret may have been changed meanwhile.
    const target = this.#sealed(given);
    if (!target.ok) return target;
    this.commit(() => {
      const cursor =
        given.startIndex === null ? (this.#record.row()?.cursor ?? newest) : before(given.startIndex, bounds);
      const { topics, maxAttempts, type, options } = given;
      const definition = { topics, namespace, type, maxAttempts, ...(options && { options }) };
      this.#record.write(definition, target.value, place.value, { cursor, newest }, Date.now());
      this.outbox.enlistLatest("registration", "", null);
    });
    await this.outbox.drain();
    return ok(null);
  }

  read(): Result<SubscriptionView> {
    return this.#existing((row) => {
      const batch = this.#record.batch();
      const { url, previous } = this.#target(row);
      return {
        ...definitionOf(row),
        url,
        previousSecretUntil: previous && previous.until > Date.now() ? previous.until : null,
        deliveredIndex: row.cursor,
        paused: row.paused,
        attempts: batch?.attempts ?? 0,
        lastError: batch?.error ?? null,
        retryAt: batch && batch.attempts > 0 && row.paused === null ? row.ready_at : null,
        deadLetters: this.#record.countDead(),
      };
    });
  }

  /** Idempotent. */
  async delete(): Promise<null> {
    this.commit(() => {
      this.#record.delete();
      this.outbox.enlistLatest("registration", "", null);
    });
    await this.outbox.drain();
    return null;
  }

  async replay(index: number): Promise<Result<null>> {
    const bounds = await eventLog(this.env).bounds();
    return this.#changed(() => this.#record.moveTo(before(index, bounds), Date.now()));
  }

  pause(reason: string | null, { forgetsDead = false } = {}): Result<null> {
    return this.#changed(() => {
      this.#record.pause(reason, Date.now());
      if (forgetsDead) this.#record.forgetDead();
    });
  }

  deadLetters(): Result<DeadLetter[]> {
    return this.#existing(() => this.#record.deadLetters());
  }

  // ---- deliveries ----

  async wake(newest: number): Promise<void> {
    if (this.isFrozen) return;
    const row = this.#record.row();
    if (!row) {
      // The log knows a subscription that was never written, or its removal from there was lost.
      this.commit(() => this.outbox.enlistLatest("registration", "", null), NOTHING);
      return this.outbox.drain();
    }
    if (row.newest >= newest) return;
    const now = Date.now();
    const isIdle = row.paused === null && row.lease === null && row.ready_at <= now;
    const notifies = isIdle && this.#wakeUp.shouldNotify(now);
    // Also arms the alarm, which repeats a message that is lost.
    this.commit(() => this.#record.extend(newest), NOTHING);
    if (notifies) await this.#wakeUp.notify();
  }

  async next(report: DeliveryReport | null, takes: boolean): Promise<Delivery | null> {
    this.#wakeUp.resume();
    if (report) this.#settle(report);
    if (!takes) return null;
    if (this.#isReady() && !this.#record.hasBatch()) await this.#fillBatch();
    const batch = this.#record.batch();
    const row = this.#record.row();
    if (!this.#isReady() || !batch || !row) return null;
    // While sealed nothing is leased, and the alarm tries again.
    const target = refuseIfSealed(() => ok(this.#target(row)));
    if (!target.ok) return null;
    const lease = this.commit(() => this.#record.lease(Date.now()), NOTHING);
    const { type, options } = definitionOf(row);
    return { lease, id: batch.id, body: batch.body, target: target.value, type, ...(options && { options }) };
  }

  rekey(term: number): void {
    this.commit(() => this.#keys.rotate(term, Date.now()));
  }

  // ---- inside ----

  protected override measured(): Series[] {
    const row = this.#record.row();
    if (!row) return [];
    return [
      series("sallyport_event_subscription_lag", Math.max(0, row.newest - row.cursor)),
      series("sallyport_event_dead_letters", this.#record.countDead()),
    ];
  }

  protected override onAnyAlarm(): void {
    // The instance that set the alarm is out of memory by then, unless it is busy.
    this.#checkedAt ??= 0;
  }

  protected override ownDeadline(): number | null {
    const row = this.#record.row();
    if (!row || row.paused !== null) return null;
    if (row.lease !== null) return this.#wakeUp.due(row.lease_until);
    return this.#isBehind(row) ? this.#wakeUp.due(row.ready_at) : (this.#checkedAt ?? this.#startedAt) + CHECK_MS;
  }

  protected override async onAlarm(now: number): Promise<void> {
    this.#checkedAt = now;
    const { newest } = await eventLog(this.env).bounds();
    this.commit(() => this.#record.extend(newest), NOTHING);
    const due = this.ownDeadline();
    const row = this.#record.row();
    const isWork = row !== null && (row.lease !== null || this.#isBehind(row));
    if (isWork && due !== null && due <= now && this.#wakeUp.shouldNotify(now)) await this.#wakeUp.notify();
  }

  /** Whether a batch may be leased now. */
  #isReady(now = Date.now()): boolean {
    const row = this.#record.row();
    if (!row || row.paused !== null || row.ready_at > now) return false;
    return row.lease === null || row.lease_until <= now;
  }

  #isBehind(row: SubscriptionRow): boolean {
    return row.paused === null && (row.newest > row.cursor || this.#record.hasBatch());
  }

  #settle(report: DeliveryReport): void {
    const settled = this.commit(() => this.#record.settle(report, Date.now()), NOTHING);
    if (settled === "paused") this.#recordPause();
    if (settled === "dead") recordAction("event-batch-dead", { subscription: this.#name });
  }

  /** Reads the log until lines match or none are left, and stores them as a batch. */
  async #fillBatch(): Promise<void> {
    for (;;) {
      const row = this.#record.row();
      if (!row || row.paused !== null) return;
      const { topics, namespace, type } = definitionOf(row);
      const namespaces = namespace === ALL ? null : [namespace];
      const filter = matcher({ topics, namespaces, rules: null, since: row.since, paths: null });
      const page = await eventLog(this.env).lines(row.cursor, filter.traces);
      const isSame = namespace === ALL || (await this.#isNamespace(namespace, row.namespace_id));
      const now = this.#record.row();
      // Changed meanwhile, or another Worker was faster.
      if (now?.version !== row.version || now.cursor !== row.cursor || this.#record.hasBatch()) return;
      if (!isSame) {
        this.commit(() => this.#record.pause("the namespace was deleted", Date.now()), NOTHING);
        return this.#recordPause();
      }
      if (page.upTo <= row.cursor) return this.commit(() => this.#record.caughtUp(row.newest), NOTHING);
      const batch = batchOf(page, filter, type);
      const sees = (account: string) => seesAccount({ topics, paths: null }, account);
      const gap = Math.max(page.evicted, newestGap(page.gaps ?? [], sees));
      const oldest = gap > Math.max(row.cursor, row.told) ? gap + 1 : row.oldest;
      const about = `"Subscription":"${this.#name}"${oldest > 0 ? `,"OldestIndex":${oldest}` : ""}`;
      this.commit(() => this.#record.store(batch, oldest, about, Date.now()), NOTHING);
      if (batch.lines !== null) return;
    }
  }

  async #isNamespace(name: string, id: string): Promise<boolean> {
    const found = await accessControl(this.env).clusterNamespaceId(name);
    return found.ok && found.value === id;
  }

  /** Id of a namespace, and the index of its creation. */
  async #namespace(name: string): Promise<Result<{ readonly id: string; readonly since: number }>> {
    if (name === ALL) return ok({ id: "", since: 0 });
    const id = await accessControl(this.env).clusterNamespaceId(name);
    if (!id.ok) return id;
    const found = await accessControl(this.env).readClusterNamespace(name);
    return found.ok ? ok({ id: id.value, since: found.value.CreateIndex ?? 0 }) : found;
  }

  /** The target as it is stored, with the secret so far if none is given. A repeated change keeps its overlap. */
  #sealed(given: SubscriptionWrite): Result<Uint8Array> {
    return refuseIfSealed(() => {
      const row = this.#record.row();
      if (isMessageType(given.type)) return this.#sealedMessageTarget(given, given.type, row);
      const { url, secret: wanted, secretOverlapMs } = given;
      const known = row && url !== null ? this.#target(row) : null;
      const secret = url === null ? null : (wanted ?? known?.secret ?? null);
      if (url !== null && secret === null) return refuse("invalid", "Target.Secret: is required");
      const overlaps = known?.secret && known.secret !== secret && secretOverlapMs;
      const until = Date.now() + (secretOverlapMs ?? 0);
      const kept = known?.secret === secret && secretOverlapMs !== 0 ? known?.previous : null;
      const previous = overlaps ? { secret: known.secret, until } : kept;
      return ok(this.#keys.seal(JSON.stringify({ url, secret, ...(previous && { previous }) }), TARGET_CONTEXT));
    });
  }

  /** A service's URL and secret; absent ones as before. A secret goes to the host for which it was given, only. */
  #sealedMessageTarget(
    { url: wanted, secret: given }: SubscriptionWrite,
    type: MessageType,
    row: SubscriptionRow | null,
  ): Result<Uint8Array> {
    const known = row && definitionOf(row).type === type ? this.#target(row) : null;
    const url = wanted ?? known?.url ?? formats[type].url;
    if (url === null) return refuse("invalid", "url: is required");
    const secret = given ?? (known?.url === url ? known.secret : null);
    if (formats[type].secret !== null && secret === null) {
      return refuse("invalid", `secret: is required${known ? " with another url" : ""}`);
    }
    return ok(this.#keys.seal(JSON.stringify({ url, secret }), TARGET_CONTEXT));
  }

  #target(row: SubscriptionRow): Target {
    return JSON.parse(this.#keys.openText(row.target, TARGET_CONTEXT)) as Target;
  }

  #existing<T>(read: (row: SubscriptionRow) => T): Result<T> {
    const row = this.#record.row();
    return row ? refuseIfSealed(() => ok(read(row))) : refuse("missing", "event subscription not found");
  }

  #changed(change: () => void): Result<null> {
    return this.#existing(() => {
      this.#wakeUp.resume();
      this.commit(change);
      return null;
    });
  }

  #recordPause(): void {
    recordAction("event-subscription-paused", { subscription: this.#name });
  }

  /** Tells the log and the register of keys whether the subscription exists. */
  async #register(): Promise<void> {
    const exists = this.#record.row() !== null;
    const term = await accessControl(this.env).holdsKeys("event-subscription", this.#name, exists);
    if (exists) this.rekey(term);
    await eventLog(this.env).setSubscription(this.#name, exists);
  }
}

/** The cursor from which delivery begins at an index; one that was not given out yet means new lines only. */
const before = (index: number, { newest, assigned = newest }: Bounds): number =>
  index > assigned + 1 ? newest : Math.max(0, index - 1);
