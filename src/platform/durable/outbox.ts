import { backoff } from "../../lib/backoff.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../observability/log.ts";
import type { OutboxState } from "../observability/metrics/health-stats.ts";
import type { Migration } from "./migrations.ts";
import type { Deliver, DeliverTogether } from "./outbox-delivery.ts";
import { GRACE_MS, OutboxLanes, UNKNOWN_NUMBER } from "./outbox-lanes.ts";

/**
 * Transactional outbox: makes effects outside an object survive a crash. The object writes a row here in the same
 * transaction as its own change. `drain` delivers the rows afterwards; the object's alarm drains again after a crash or
 * a failure. Deliveries repeat (a crash after delivery, before the row is deleted), so every receiver is idempotent.
 */
export const outboxMigrations: Migration[] = [
  // Effects promised by a commit, kept until delivered. `due`, the next attempt of a lane, is set on its
  // oldest row only.
  `CREATE TABLE outbox (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, lane TEXT NOT NULL, body TEXT NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0, due INTEGER) STRICT`,
  // Rows of a lane, in order.
  "CREATE INDEX outbox_by_lane ON outbox (topic, lane, seq)",
  // One row of each lane, however many rows it has.
  "CREATE UNIQUE INDEX outbox_heads ON outbox (topic, lane) WHERE due IS NOT NULL",
  // Find the next alarm without a scan.
  "CREATE INDEX outbox_by_due ON outbox (due) WHERE due IS NOT NULL",
  // When the row was added, for the metric of the oldest; 0 = unknown.
  "ALTER TABLE outbox ADD COLUMN enlisted INTEGER NOT NULL DEFAULT 0",
  // An effect costs one row and its deletion: the key is the order of the lane, and retries are in memory.
  // `outbox_numbers` is always empty and keeps the last reserved number.
  `CREATE TABLE outbox_numbers (n INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;
      INSERT INTO outbox_numbers SELECT seq FROM sqlite_sequence WHERE name = 'outbox';
      DELETE FROM outbox_numbers;
      CREATE TABLE pending (
        topic TEXT NOT NULL, lane TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, enlisted INTEGER NOT NULL,
        PRIMARY KEY (topic, lane, seq)) STRICT, WITHOUT ROWID;
      INSERT INTO pending SELECT topic, lane, seq, body, enlisted FROM outbox;
      DROP TABLE outbox;
      ALTER TABLE pending RENAME TO outbox`,
];

/** Receivers are our own objects and D1, which recover soon; readers wait for these rows. */
const BACKOFF_CAP_MS = 30_000;
/** A delivery that takes longer counts as failed. It may still arrive, even after a later one of its lane. */
const DELIVERY_DEADLINE_MS = 10_000;
const ROWS_PER_DELIVERY = 100;
/** One RPC takes 32 MiB; this bounds the rows in memory at once. */
const BYTES_PER_DELIVERY = 4 * 1024 * 1024;
const OLDEST = "SELECT seq, body FROM outbox WHERE topic = ? AND lane = ? AND seq > ? ORDER BY seq LIMIT ?";
const OLDEST_WITHIN_BYTES = `SELECT seq, body FROM (
    SELECT seq, body, octet_length(body) AS bytes, sum(octet_length(body)) OVER (ORDER BY seq) AS upto FROM (${OLDEST}))
  WHERE upto = bytes OR upto <= ? ORDER BY seq`;
const MAX_CONCURRENT_LANES = 6;
const LANES_TOGETHER = 100;
/** UTF-8, for each code unit of a text. */
const MAX_BYTES_PER_CHARACTER = 3;
const MAX_COUNTED = 10_000;
/** Numbers reserved at a time, so that most rows write no row for their number. */
const NUMBERS = 1_000;

export class Outbox {
  readonly #lanes: OutboxLanes;
  /** The last number that was given, and the last one that may be; null = to be read. */
  #numbers: { last: number; readonly reserved: number } | null = null;
  /** The lanes being delivered. One delivery at a time per lane keeps its order; concurrent callers join it. */
  readonly #deliveries = new Map<string, LaneDelivery>();
  /** Lanes with delivered rows that are still stored. */
  readonly #delivered = new Map<string, Delivered>();

  /** @param commit runs a change in one transaction and re-arms the alarm */
  constructor(
    private readonly sql: SqlStorage,
    private readonly topics: Readonly<Record<string, Deliver>>,
    private readonly commit: (change: () => void) => void,
  ) {
    this.#lanes = new OutboxLanes(sql);
  }

  /** Drops what is cached of rows, after a rollback. */
  forget(): void {
    this.#lanes.forget();
    this.#numbers = null;
  }

  /** Like `forget`, after all rows were replaced. */
  reset(): void {
    this.forget();
    this.#delivered.clear();
  }

  /** Whether deliveries have succeeded whose success is not stored. */
  get isUnsettled(): boolean {
    return this.#delivered.size > 0;
  }

  /** Stores the success of earlier deliveries: see `storedLater`. Never throws; what cannot be stored is repeated. */
  settle(): void {
    for (const [key, delivered] of this.#delivered) {
      this.#delivered.delete(key);
      try {
        this.#store(delivered);
      } catch (failure) {
        warn("outbox-failed", { topic: delivered.topic, lane: delivered.lane, because: textOf(failure) });
      }
    }
  }

  /**
   * Enlists an effect. Call inside the transaction that causes it. Rows of one lane are delivered in order; lanes are
   * independent.
   * @param body the message, or a function of the row's number that returns it
   * @returns the row's number, which only grows within the object
   */
  enlist(topic: string, lane: string, body: unknown, now = Date.now()): number {
    if (!this.topics[topic]) throw new Error(`no delivery for outbox topic ${topic}`);
    const seq = this.#nextNumber();
    const text = JSON.stringify(typeof body === "function" ? body(seq) : body);
    this.sql.exec(
      "INSERT INTO outbox (topic, lane, seq, body, enlisted) VALUES (?, ?, ?, ?, ?)",
      topic,
      lane,
      seq,
      text,
      now,
    );
    const bytes = text.length * MAX_BYTES_PER_CHARACTER;
    this.#lanes.add(topic, lane, { attempts: 0, due: now + GRACE_MS, since: now, newest: seq, bytes });
    return seq;
  }

  /** Never gives a number again, also after a restart. */
  #nextNumber(): number {
    if (this.#numbers === null || this.#numbers.last >= this.#numbers.reserved) {
      const [row] = this.sql
        .exec<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'outbox_numbers'")
        .toArray();
      const last = row?.seq ?? 0;
      this.sql.exec("INSERT INTO outbox_numbers VALUES (?)", last + NUMBERS);
      this.sql.exec("DELETE FROM outbox_numbers");
      this.#numbers = { last, reserved: last + NUMBERS };
    }
    this.#numbers.last += 1;
    return this.#numbers.last;
  }

  /**
   * Like `enlist`, for effects of which one of each body matters: while deliveries fail, replaces a row with the same
   * body, so that a lane is no longer than it has bodies.
   */
  enlistOnce(topic: string, lane: string, body: unknown): number {
    if ((this.#lanes.find(topic, lane)?.attempts ?? 0) > 0) {
      const same = JSON.stringify(body);
      this.sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ? AND body = ?", topic, lane, same);
    }
    return this.enlist(topic, lane, body);
  }

  /** Like `enlist`, for effects of which only the newest matters: replaces the pending rows of the lane. */
  enlistLatest(topic: string, lane: string, body: unknown, now = Date.now()): number {
    this.sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ?", topic, lane);
    this.#lanes.delete(topic, lane);
    return this.enlist(topic, lane, body, now);
  }

  /** Whether rows of a topic, or of one of its lanes, are pending. */
  holds(topic: string, lane?: string): boolean {
    const [where, ...values] = lane === undefined ? ["topic = ?", topic] : ["topic = ? AND lane = ?", topic, lane];
    return this.sql.exec(`SELECT 1 FROM outbox WHERE ${where} LIMIT 1`, ...values).toArray().length > 0;
  }

  /** Time of the next delivery attempt, or null when the outbox is empty. May be too early, never too late. */
  nextDue(): number | null {
    return this.#lanes.nextDue();
  }

  /** Pending rows: their number, up to a bound, and the age of the oldest. */
  waiting(now: number): OutboxState {
    const oldest = this.#lanes.oldest();
    const { rows } = this.sql
      .exec<{ rows: number }>("SELECT count(*) AS rows FROM (SELECT 1 FROM outbox LIMIT ?)", MAX_COUNTED)
      .one();
    return { rows, oldestMs: oldest !== null && oldest > 0 ? Math.max(0, now - oldest) : 0 };
  }

  /**
   * Delivers pending rows: all, one topic, or one lane. Resolves when the rows pending at the call were tried, in each
   * lane that is not backing off; never rejects.
   */
  async drain(topic?: string, lane?: string): Promise<void> {
    if (topic !== undefined && lane !== undefined) return this.#drainLane(topic, lane);
    const topics = topic === undefined ? Object.keys(this.topics) : [topic];
    await Promise.all(topics.map((name) => this.#drainTopic(name)));
  }

  async #drainTopic(topic: string): Promise<void> {
    const together = this.topics[topic]?.together;
    if (together) await this.#drainTogether(topic, together);
    await mapLimit(this.#lanes.ready(topic, Date.now()), MAX_CONCURRENT_LANES, (lane) => this.#drainLane(topic, lane));
  }

  /** Delivers the ready lanes of a topic that are not being delivered, many at a time. */
  async #drainTogether(topic: string, deliver: DeliverTogether): Promise<void> {
    for (;;) {
      const upTo = this.#freeLanes(topic);
      const lanes = [...upTo.keys()];
      if (lanes.length < 2) return;
      const flight: LaneDelivery = { delivered: 0, over: false, step: Promise.withResolvers(), isTogether: true };
      for (const lane of lanes) this.#deliveries.set(keyOf(topic, lane), flight);
      let isDone = false;
      try {
        const confirm = await within(DELIVERY_DEADLINE_MS, deliver(lanes), "delivery took too long");
        this.commit(() => {
          confirm?.();
          for (const [lane, seq] of upTo) this.#remove(topic, lane, seq);
        });
        isDone = true;
      } catch (failure) {
        this.#failedTogether(topic, lanes, failure);
      } finally {
        for (const lane of lanes) this.#deliveries.delete(keyOf(topic, lane));
        flight.over = true;
        flight.step.resolve();
      }
      if (!isDone) return;
    }
  }

  /** Some ready lanes that are not being delivered, with the numbers of their newest rows. */
  #freeLanes(topic: string): Map<string, number> {
    const free = new Map<string, number>();
    for (const lane of this.#lanes.ready(topic, Date.now())) {
      const newest = this.#lanes.find(topic, lane)?.newest;
      if (newest === undefined || newest === UNKNOWN_NUMBER || this.#deliveries.has(keyOf(topic, lane))) continue;
      free.set(lane, newest);
      if (free.size === LANES_TOGETHER) break;
    }
    return free;
  }

  /** @param again whether a delivery of many lanes has ended, which may have begun before the rows of this one */
  async #drainLane(topic: string, lane: string, again = false): Promise<void> {
    const newest = this.#lanes.find(topic, lane)?.newest;
    const key = keyOf(topic, lane);
    if (newest === undefined || newest <= this.#deliveredUpTo(topic, lane)) return;
    let flight = this.#deliveries.get(key);
    if (!flight) {
      const begun: LaneDelivery = { delivered: 0, over: false, step: Promise.withResolvers() };
      flight = begun;
      this.#deliveries.set(key, begun);
      // Starts in a microtask, so that the delivery is registered before it can finish.
      queueMicrotask(() => void this.#deliverLane(topic, lane, key, begun));
    }
    // Does not wait for an empty lane: on a busy lane that would never resolve.
    while (!flight.over && flight.delivered < newest) await flight.step.promise;
    if (flight.isTogether && !again) await this.#drainLane(topic, lane, true);
  }

  /**
   * Delivers a lane until it is empty or fails. Unregisters in the same turn in which the lane had no row: rows enlisted
   * before that turn were delivered, and a row enlisted after it starts a new delivery.
   */
  async #deliverLane(topic: string, lane: string, key: string, flight: LaneDelivery): Promise<void> {
    try {
      for (;;) {
        const rows = this.#deliverable(topic, lane);
        const last = rows.at(-1);
        if (!last || !(await this.#deliver(topic, lane, rows))) return;
        const { resolve } = flight.step;
        flight.delivered = last.seq;
        flight.step = Promise.withResolvers();
        resolve();
      }
    } catch (failure) {
      // Our own storage failed, not the delivery: rows and alarm are unchanged.
      warn("outbox-failed", { topic, lane, because: textOf(failure) });
    } finally {
      this.#deliveries.delete(key);
      flight.over = true;
      flight.step.resolve();
    }
  }

  /** The oldest rows of a lane, bounded by number and size; empty while it backs off. */
  #deliverable(topic: string, lane: string): LaneRow[] {
    const state = this.#lanes.find(topic, lane);
    const after = this.#deliveredUpTo(topic, lane);
    if (!state || state.newest <= after || (state.attempts > 0 && state.due > Date.now())) return [];
    // Sums over rows cost several times the rows themselves.
    const rows = this.sql
      .exec<LaneRow>(
        state.bytes <= BYTES_PER_DELIVERY ? OLDEST : OLDEST_WITHIN_BYTES,
        topic,
        lane,
        after,
        ROWS_PER_DELIVERY,
        ...(state.bytes <= BYTES_PER_DELIVERY ? [] : [BYTES_PER_DELIVERY]),
      )
      .toArray();
    // The lane was listed without rows.
    if (rows.length === 0 && after === 0) this.#lanes.delete(topic, lane);
    return rows;
  }

  /** @returns whether it succeeded */
  async #deliver(topic: string, lane: string, rows: LaneRow[]): Promise<boolean> {
    const last = rows.at(-1);
    const deliver = this.topics[topic];
    if (!last || !deliver) return false;
    try {
      const confirm = await within(DELIVERY_DEADLINE_MS, deliver(lane, rows), "delivery took too long");
      const delivered = { topic, lane, upTo: last.seq, confirms: confirm ? [confirm] : [] };
      if (!deliver.isStoredLater) return this.#store(delivered);
      this.#storeLater(delivered);
      return true;
    } catch (failure) {
      this.#failed(topic, lane, failure);
      return false;
    }
  }

  /** Adds to the deliveries of a lane that the next transaction stores. */
  #storeLater(delivered: Delivered): void {
    const { topic, lane, upTo, confirms } = delivered;
    const before = this.#delivered.get(keyOf(topic, lane));
    const all = [...(before?.confirms ?? []), ...confirms];
    this.#delivered.set(keyOf(topic, lane), { topic, lane, upTo, confirms: all });
    const state = this.#lanes.find(topic, lane);
    if (state && state.attempts > 0)
      this.#lanes.retry(topic, lane, { ...state, attempts: 0, due: Date.now() + GRACE_MS });
  }

  /** Deletes delivered rows. @returns whether it succeeded */
  #store({ topic, lane, upTo, confirms }: Delivered): boolean {
    try {
      this.commit(() => {
        for (const confirm of confirms) confirm();
        this.#remove(topic, lane, upTo);
      });
      return true;
    } catch (failure) {
      this.#failed(topic, lane, failure);
      return false;
    }
  }

  /** Deletes the rows of a lane up to a number. Rows enlisted meanwhile have higher numbers. */
  #remove(topic: string, lane: string, upTo: number): void {
    this.sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ? AND seq <= ?", topic, lane, upTo);
    if (this.#lanes.find(topic, lane)?.newest === upTo) this.#lanes.delete(topic, lane);
    else this.#retryAt(topic, lane, 0, Date.now() + GRACE_MS);
  }

  #failedTogether(topic: string, lanes: readonly string[], failure: unknown): void {
    warn("outbox-delivery-failed", { topic, lanes: lanes.length, because: textOf(failure) });
    try {
      this.commit(() => {
        for (const lane of lanes) this.#retryLater(topic, lane);
      });
    } catch (refused) {
      warn("outbox-failed", { topic, lanes: lanes.length, because: textOf(refused) });
    }
  }

  #failed(topic: string, lane: string, failure: unknown): void {
    const attempts = this.#lanes.find(topic, lane)?.attempts ?? 0;
    warn("outbox-delivery-failed", { topic, lane, attempts: attempts + 1, because: textOf(failure) });
    this.commit(() => this.#retryLater(topic, lane));
  }

  #retryLater(topic: string, lane: string): void {
    const attempts = this.#lanes.find(topic, lane)?.attempts ?? 0;
    const due = Date.now() + backoff(attempts, { cap: BACKOFF_CAP_MS });
    this.#retryAt(topic, lane, attempts + 1, due);
  }

  #deliveredUpTo(topic: string, lane: string): number {
    return this.#delivered.get(keyOf(topic, lane))?.upTo ?? 0;
  }

  /** Sets when a lane is tried again, if it still holds rows. */
  #retryAt(topic: string, lane: string, attempts: number, due: number): void {
    const [head] = this.sql
      .exec<{ enlisted: number }>(
        "SELECT enlisted FROM outbox WHERE topic = ? AND lane = ? ORDER BY seq LIMIT 1",
        topic,
        lane,
      )
      .toArray();
    if (head) this.#lanes.retry(topic, lane, { attempts, due, since: head.enlisted });
    else this.#lanes.delete(topic, lane);
  }
}

const keyOf = (topic: string, lane: string): string => `${topic}\n${lane}`;

/** Rows of a lane that were delivered, up to a number, with what their deliveries write back. */
interface Delivered {
  readonly topic: string;
  readonly lane: string;
  readonly upTo: number;
  readonly confirms: readonly (() => void)[];
}

interface LaneDelivery {
  /** Number of the newest delivered row. */
  delivered: number;
  over: boolean;
  /** Whether it is one of many lanes, and ends with one delivery. */
  readonly isTogether?: true;
  /** Resolves with the delivery in progress. */
  step: PromiseWithResolvers<void>;
}

interface LaneRow extends Record<string, SqlStorageValue> {
  seq: number;
  body: string;
}
