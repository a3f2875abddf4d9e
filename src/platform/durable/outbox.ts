import { backoff } from "../../lib/backoff.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../observability/log.ts";
import type { OutboxState } from "../observability/metrics/health-stats.ts";
import type { Migration } from "./migrations.ts";

/**
 * Transactional outbox: makes effects outside an object survive a crash. The object writes a row here in the same
 * transaction as its own change. `drain` delivers the rows afterwards; the object's alarm drains again after a crash or
 * a failure. Deliveries repeat (a crash after delivery, before the row is deleted), so every receiver is idempotent.
 */
export const outboxMigrations: Migration[] = [
  {
    because:
      "effects promised by a commit, kept until delivered; due (when to try a lane) is set on its oldest row only",
    sql: `CREATE TABLE outbox (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, lane TEXT NOT NULL, body TEXT NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0, due INTEGER) STRICT`,
  },
  { because: "walk one lane in order", sql: "CREATE INDEX outbox_by_lane ON outbox (topic, lane, seq)" },
  {
    because: "walk the lanes, however many rows each holds; one row of a lane speaks for it",
    sql: "CREATE UNIQUE INDEX outbox_heads ON outbox (topic, lane) WHERE due IS NOT NULL",
  },
  {
    because: "find the next alarm without a scan",
    sql: "CREATE INDEX outbox_by_due ON outbox (due) WHERE due IS NOT NULL",
  },
  {
    because: "how long the oldest has waited tells of trouble; 0 = not known",
    sql: "ALTER TABLE outbox ADD COLUMN enlisted INTEGER NOT NULL DEFAULT 0",
  },
];

export interface OutboxRow {
  readonly seq: number;
  readonly body: string;
}

/**
 * Delivers rows of one lane, oldest first. Optionally returns a write for the transaction that deletes the rows. A
 * rejection keeps the rows; the lane is retried after a back-off.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a delivery with nothing to write back returns nothing
export type Deliver = (lane: string, rows: OutboxRow[]) => Promise<(() => void) | void>;

/** Time for the inline drain after a commit before the alarm takes over. */
const GRACE_MS = 2_000;
/** Receivers are our own objects and D1, which recover soon; readers wait for these rows. */
const BACKOFF_CAP_MS = 30_000;
/** A delivery that takes longer counts as failed. It may still arrive, even after a later one of its lane. */
const DELIVERY_DEADLINE_MS = 10_000;
const ROWS_PER_DELIVERY = 100;
/** One RPC takes 32 MiB; this bounds the rows in memory at once. */
const BYTES_PER_DELIVERY = 4 * 1024 * 1024;
const LANES_AT_ONCE = 6;
const MOST_COUNTED = 10_000;
const LANES_PER_PAGE = 100;

export class Outbox {
  readonly #sql: SqlStorage;
  readonly #topics: Readonly<Record<string, Deliver>>;
  readonly #commit: (change: () => void) => void;
  /** The lanes being delivered. One delivery at a time per lane keeps its order; concurrent callers join it. */
  readonly #deliveries = new Map<string, LaneDelivery>();

  /** @param commit runs a change in one transaction and re-arms the alarm */
  constructor(sql: SqlStorage, topics: Readonly<Record<string, Deliver>>, commit: (change: () => void) => void) {
    this.#sql = sql;
    this.#topics = topics;
    this.#commit = commit;
  }

  /**
   * Enlists an effect. Call inside the transaction that causes it. Rows of one lane are delivered in order; lanes are
   * independent.
   * @param body the message, or a function of the row's number that returns it
   * @returns the row's number, which only grows within the object
   */
  enlist(topic: string, lane: string, body: unknown, now = Date.now()): number {
    if (!this.#topics[topic]) throw new Error(`no delivery for outbox topic ${topic}`);
    const made = typeof body === "function";
    const seq = this.#insert(topic, lane, made ? "" : JSON.stringify(body), now);
    if (made) this.#sql.exec("UPDATE outbox SET body = ? WHERE seq = ?", JSON.stringify(body(seq)), seq);
    return seq;
  }

  #insert(topic: string, lane: string, body: string, now: number): number {
    return this.#sql
      .exec<{ seq: number }>(
        `INSERT INTO outbox (topic, lane, body, due, enlisted)
         VALUES (?1, ?2, ?3, iif(EXISTS (SELECT 1 FROM outbox WHERE topic = ?1 AND lane = ?2), NULL, ?4), ?5) RETURNING seq`,
        topic,
        lane,
        body,
        now + GRACE_MS,
        now,
      )
      .one().seq;
  }

  /** Like `enlist`, for effects of which only the newest matters: replaces the pending rows of the lane. */
  enlistLatest(topic: string, lane: string, body: unknown, now = Date.now()): number {
    this.#sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ?", topic, lane);
    return this.enlist(topic, lane, body, now);
  }

  /** Whether rows of a topic, or of one of its lanes, are pending. */
  holds(topic: string, lane?: string): boolean {
    const [where, ...values] = lane === undefined ? ["topic = ?", topic] : ["topic = ? AND lane = ?", topic, lane];
    return this.#sql.exec(`SELECT 1 FROM outbox WHERE ${where} LIMIT 1`, ...values).toArray().length > 0;
  }

  /** Time of the next delivery attempt, or null when the outbox is empty. */
  nextDue(): number | null {
    return this.#sql.exec<{ due: number | null }>("SELECT min(due) AS due FROM outbox WHERE due IS NOT NULL").one().due;
  }

  /** Pending rows: their number, up to a bound, and the age of the oldest. */
  waiting(now: number): OutboxState {
    const [oldest] = this.#sql.exec<{ at: number }>("SELECT enlisted AS at FROM outbox ORDER BY seq LIMIT 1").toArray();
    const { rows } = this.#sql
      .exec<{ rows: number }>("SELECT count(*) AS rows FROM (SELECT 1 FROM outbox LIMIT ?)", MOST_COUNTED)
      .one();
    return { rows, oldestMs: oldest && oldest.at > 0 ? Math.max(0, now - oldest.at) : 0 };
  }

  /**
   * Delivers pending rows: all, one topic, or one lane. Resolves when the rows pending at the call were tried, in each
   * lane that is not backing off; never rejects.
   */
  async drain(topic?: string, lane?: string): Promise<void> {
    if (topic !== undefined && lane !== undefined) return this.#drainLane(topic, lane);
    const topics = topic === undefined ? Object.keys(this.#topics) : [topic];
    await Promise.all(topics.map((name) => this.#drainTopic(name)));
  }

  async #drainTopic(topic: string): Promise<void> {
    await mapLimit(this.#lanes(topic), LANES_AT_ONCE, (lane) => this.#drainLane(topic, lane));
  }

  /** The lanes of a topic that may be tried, one page at a time. */
  *#lanes(topic: string): Generator<string> {
    for (let from = ""; ; ) {
      const page = this.#sql
        .exec<{ lane: string }>(
          `SELECT lane FROM outbox WHERE topic = ? AND lane >= ? AND due IS NOT NULL AND (attempts = 0 OR due <= ?)
           ORDER BY lane LIMIT ?`,
          topic,
          from,
          Date.now(),
          LANES_PER_PAGE,
        )
        .toArray();
      for (const { lane } of page) yield lane;
      const last = page.at(-1);
      if (!last || page.length < LANES_PER_PAGE) return;
      from = `${last.lane}\u0000`;
    }
  }

  async #drainLane(topic: string, lane: string): Promise<void> {
    const newest = this.#newest(topic, lane);
    if (newest === null) return;
    const key = `${topic}\n${lane}`;
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
  }

  #newest(topic: string, lane: string): number | null {
    return this.#sql
      .exec<{ seq: number | null }>("SELECT max(seq) AS seq FROM outbox WHERE topic = ? AND lane = ?", topic, lane)
      .one().seq;
  }

  /**
   * Delivers a lane until it is empty or fails. Unregisters in the same turn in which no row was found: rows enlisted
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

  /** The oldest rows of a lane; empty while it backs off. */
  #deliverable(topic: string, lane: string): Row[] {
    const rows = this.#sql
      .exec<Row>(
        `SELECT seq, body, attempts, due FROM outbox
         JOIN (SELECT seq AS sized, octet_length(body) AS bytes, sum(octet_length(body)) OVER (ORDER BY seq) AS upto
               FROM (SELECT seq, body FROM outbox WHERE topic = ? AND lane = ? ORDER BY seq LIMIT ?))
           ON seq = sized
         WHERE upto = bytes OR upto <= ? ORDER BY seq`,
        ...[topic, lane, ROWS_PER_DELIVERY, BYTES_PER_DELIVERY],
      )
      .toArray();
    const [head] = rows;
    if (head && head.attempts > 0 && (head.due ?? 0) > Date.now()) return [];
    return rows;
  }

  /** @returns whether it succeeded */
  async #deliver(topic: string, lane: string, rows: Row[]): Promise<boolean> {
    const [head] = rows;
    const last = rows.at(-1);
    const deliver = this.#topics[topic];
    if (!head || !last || !deliver) return false;
    try {
      const confirm = await within(DELIVERY_DEADLINE_MS, deliver(lane, rows), "delivery took too long");
      this.#commit(() => {
        confirm?.();
        // Rows enlisted meanwhile have higher numbers.
        this.#sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ? AND seq <= ?", topic, lane, last.seq);
        this.#setHead(topic, lane, 0, Date.now() + GRACE_MS);
      });
      return true;
    } catch (failure) {
      warn("outbox-delivery-failed", { topic, lane, attempts: head.attempts + 1, because: textOf(failure) });
      const due = Date.now() + backoff(head.attempts, { cap: BACKOFF_CAP_MS });
      this.#commit(() => this.#setHead(topic, lane, head.attempts + 1, due));
      return false;
    }
  }

  /** Retry state is kept on the lane's oldest row. */
  #setHead(topic: string, lane: string, attempts: number, due: number): void {
    this.#sql.exec(
      `UPDATE outbox SET attempts = ?3, due = ?4
       WHERE seq = (SELECT min(seq) FROM outbox WHERE topic = ?1 AND lane = ?2)`,
      topic,
      lane,
      attempts,
      due,
    );
  }
}

interface LaneDelivery {
  /** Number of the newest delivered row. */
  delivered: number;
  over: boolean;
  /** Resolves with the delivery in progress. */
  step: PromiseWithResolvers<void>;
}

interface Row extends Record<string, SqlStorageValue> {
  seq: number;
  body: string;
  attempts: number;
  due: number | null;
}
