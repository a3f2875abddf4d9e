import { textOf, warn } from "./log.ts";
import type { Migration } from "./objects/migrations.ts";
import { backoff } from "./work/backoff.ts";

/**
 * How an effect outside an object survives a crash. The object writes a row here in the same transaction as its own change;
 * `drain` delivers the rows afterwards, and the object's alarm drains again whatever a crash or a failure left behind.
 * Deliveries repeat (a crash after delivery, before the row is deleted), so every receiver is idempotent.
 */
export const outboxMigrations: Migration[] = [
  {
    because: "effects promised by a commit, kept until they are delivered",
    sql: `CREATE TABLE outbox (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, lane TEXT NOT NULL, body TEXT NOT NULL,
      attempts INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL) STRICT`,
  },
  { because: "walk one lane in order", sql: "CREATE INDEX outbox_by_lane ON outbox (topic, lane, seq)" },
  { because: "find the next alarm without a scan", sql: "CREATE INDEX outbox_by_due ON outbox (due)" },
];

export interface OutboxRow {
  readonly seq: number;
  readonly body: string;
}

/**
 * Delivers rows of one lane, oldest first. Returns what to write in the transaction that deletes them, if anything.
 * A rejection keeps the rows; the lane is tried again after a back-off.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a delivery with nothing to write back returns nothing
export type Deliver = (lane: string, rows: OutboxRow[]) => Promise<(() => void) | void>;

/** The inline drain that follows a commit gets this long before the alarm steps in. */
const GRACE_MS = 2_000;
const ROWS_PER_DELIVERY = 100;
const LANES_AT_ONCE = 6;
const LANES_PER_PAGE = 100;
const DELIVERY_DEADLINE_MS = 30_000;

export class Outbox {
  readonly #sql: SqlStorage;
  readonly #topics: Readonly<Record<string, Deliver>>;
  readonly #commit: (change: () => void) => void;
  readonly #passes = new Map<string, { running: Promise<void>; queued: Promise<void> | undefined }>();

  /** @param commit runs a change in one transaction and re-arms the alarm */
  constructor(sql: SqlStorage, topics: Readonly<Record<string, Deliver>>, commit: (change: () => void) => void) {
    this.#sql = sql;
    this.#topics = topics;
    this.#commit = commit;
  }

  /**
   * Promises an effect. Call inside the transaction that makes it necessary.
   * Rows of one lane are delivered in order; lanes do not wait for each other.
   * @returns the row's number, which grows for ever within the object
   */
  enlist(topic: string, lane: string, body: unknown, now = Date.now()): number {
    if (!this.#topics[topic]) throw new Error(`no delivery for outbox topic ${topic}`);
    return this.#sql
      .exec<{ seq: number }>(
        "INSERT INTO outbox (topic, lane, body, due) VALUES (?, ?, ?, ?) RETURNING seq",
        topic,
        lane,
        JSON.stringify(body),
        now + GRACE_MS,
      )
      .one().seq;
  }

  /** Like `enlist`, for effects of which only the newest matters: replaces what waits in the lane. */
  enlistLatest(topic: string, lane: string, body: unknown, now = Date.now()): number {
    this.#sql.exec("DELETE FROM outbox WHERE topic = ? AND lane = ?", topic, lane);
    return this.enlist(topic, lane, body, now);
  }

  /** When the alarm must look at the outbox, or null when it is empty. */
  nextDue(): number | null {
    return this.#sql.exec<{ due: number | null }>("SELECT min(due) AS due FROM outbox").one().due;
  }

  /** Delivers what waits in `topic`, or in all topics. Resolves when each waiting row was tried once; never rejects. */
  async drain(topic?: string): Promise<void> {
    const topics = topic ? [topic] : Object.keys(this.#topics);
    await Promise.all(topics.map((name) => this.#drainTopic(name)));
  }

  /** One pass at a time a topic; callers that arrive during a pass share the next one, which sees their rows. */
  #drainTopic(topic: string): Promise<void> {
    const state = this.#passes.get(topic);
    if (!state) {
      const running = this.#pass(topic).finally(() => {
        if (this.#passes.get(topic)?.running === running) this.#passes.delete(topic);
      });
      this.#passes.set(topic, { running, queued: undefined });
      return running;
    }
    state.queued ??= state.running.then(() => {
      this.#passes.delete(topic);
      return this.#drainTopic(topic);
    });
    return state.queued;
  }

  async #pass(topic: string): Promise<void> {
    let after = "";
    for (;;) {
      const lanes = this.#sql
        .exec<{ lane: string }>(
          "SELECT DISTINCT lane FROM outbox WHERE topic = ? AND lane >= ? ORDER BY lane LIMIT ?",
          topic,
          after,
          LANES_PER_PAGE,
        )
        .toArray()
        .map((row) => row.lane);
      const iterator = lanes.values();
      const worker = async () => {
        for (const lane of iterator) await this.#drainLane(topic, lane);
      };
      await Promise.all(Array.from({ length: LANES_AT_ONCE }, worker));
      const last = lanes.at(-1);
      if (last === undefined || lanes.length < LANES_PER_PAGE) return;
      after = `${last}\u0000`;
    }
  }

  async #drainLane(topic: string, lane: string): Promise<void> {
    const deliver = this.#topics[topic];
    for (;;) {
      const now = Date.now();
      const rows = this.#sql
        .exec<{ seq: number; body: string; attempts: number; due: number }>(
          "SELECT seq, body, attempts, due FROM outbox WHERE topic = ? AND lane = ? ORDER BY seq LIMIT ?",
          topic,
          lane,
          ROWS_PER_DELIVERY,
        )
        .toArray();
      const [head] = rows;
      const last = rows.at(-1);
      if (!head || !last || !deliver) return;
      if (head.attempts > 0 && head.due > now) return;
      try {
        const confirm = await withDeadline(deliver(lane, rows));
        this.#commit(() => {
          confirm?.();
          this.#sql.exec(
            "DELETE FROM outbox WHERE topic = ? AND lane = ? AND seq BETWEEN ? AND ?",
            topic,
            lane,
            head.seq,
            last.seq,
          );
        });
      } catch (failure) {
        warn("outbox-delivery-failed", { topic, lane, attempts: head.attempts + 1, because: textOf(failure) });
        // The whole lane waits for its head, so the alarm must not wake for the rows behind it.
        const due = now + backoff(head.attempts);
        this.#commit(() =>
          this.#sql.exec(
            "UPDATE outbox SET attempts = ?, due = ? WHERE topic = ? AND lane = ?",
            head.attempts + 1,
            due,
            topic,
            lane,
          ),
        );
        return;
      }
    }
  }
}

async function withDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("delivery took too long")), DELIVERY_DEADLINE_MS);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
