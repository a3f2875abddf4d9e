import type { DeadLetter, DeliveryReport, SubscriptionDefinition } from "../../contracts/event-subscription.ts";
import { backoff } from "../../lib/backoff.ts";
import type { Batch } from "./batch.ts";

/** Longer than a delivery may take. */
const LEASE_MS = 60_000;
/** With 20 attempts, the default, a batch is retried for 5 to 9 hours. */
const BACKOFF = { base: 2_000, cap: 3_600_000 };
/** Bounds of the dead letters; the oldest are deleted first. */
const MAX_DEAD = 100;
const MAX_DEAD_BYTES = 4 * 1024 * 1024;

export interface SubscriptionRow extends Record<string, SqlStorageValue> {
  /** Grows with each change of what is delivered. */
  version: number;
  definition: string;
  target: ArrayBuffer;
  /** Id of the namespace; empty for all namespaces. */
  namespace_id: string;
  /** Index of the namespace's creation. */
  since: number;
  /** Lines up to here are settled. */
  cursor: number;
  /** The newest known index of the log. */
  newest: number;
  /** The first index after a gap that was not reported yet; 0: none. */
  oldest: number;
  /** The newest index up to which lines may be missing, as a batch has told or will tell; 0: none. */
  told: number;
  paused: string | null;
  ready_at: number;
  lease: string | null;
  lease_until: number;
}

interface BatchRow extends Record<string, SqlStorageValue> {
  id: string;
  upto: number;
  body: string;
  attempts: number;
  error: string | null;
  at: number;
}

/** The effect of a report. */
type Settled = "delivered" | "retrying" | "paused" | "dead" | "stale";

/**
 * Rows of one subscription: its definition, the cursor, the batch being delivered and the dead letters. A batch is
 * stored before its first attempt, so that every attempt has the same id and body. Writes belong in a transaction.
 *
 *   no batch ──store──> waiting ──lease──> leased ──delivered──> no batch, cursor moves
 *      ^                   ^                 │ ├─ failed, lease end ──> waiting
 *      │                   │                 │ └─ 410 ──> paused ──resume──> waiting
 *      └───────────────────┴─ write, replay ─┴─ attempts used up ──> dead letter, cursor moves
 */
export class SubscriptionRecord {
  constructor(private readonly sql: SqlStorage) {}

  row(): SubscriptionRow | null {
    return this.sql.exec<SubscriptionRow>("SELECT * FROM subscription").toArray()[0] ?? null;
  }

  /** The batch being delivered. */
  batch(): BatchRow | null {
    return this.sql.exec<BatchRow>("SELECT * FROM batches WHERE dead = 0").toArray()[0] ?? null;
  }

  /** Does not read the body. */
  hasBatch(): boolean {
    return this.sql.exec("SELECT 1 FROM batches WHERE dead = 0").toArray().length > 0;
  }

  deadLetters(): DeadLetter[] {
    return this.sql
      .exec<BatchRow>("SELECT * FROM batches WHERE dead = 1 ORDER BY seq")
      .toArray()
      .map(({ id, attempts, error, at, body }) => ({ id, attempts, error: error ?? "", at, body }));
  }

  countDead(): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM batches WHERE dead = 1").one().n;
  }

  /** Creates or changes the subscription. A batch that is being delivered is built again by the new definition. */
  write(
    definition: SubscriptionDefinition,
    target: Uint8Array,
    namespace: { readonly id: string; readonly since: number },
    { cursor, newest }: { readonly cursor: number; readonly newest: number },
    now: number,
  ): void {
    this.sql.exec(
      `INSERT INTO subscription (id, version, definition, target, namespace_id, since, cursor, newest, ready_at)
       VALUES (1, 1, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, target = excluded.target,
         namespace_id = excluded.namespace_id, since = excluded.since`,
      JSON.stringify(definition),
      target,
      namespace.id,
      namespace.since,
      cursor,
      newest,
      now,
    );
    this.moveTo(cursor, now);
  }

  /** Delivers from the line after `cursor` on; dead letters behind it are delivered again, so they are deleted. */
  moveTo(cursor: number, now: number): void {
    this.sql.exec("DELETE FROM batches WHERE dead = 0 OR upto > ?", cursor);
    this.sql.exec(
      `UPDATE subscription SET version = version + 1, oldest = CASE WHEN cursor = ?1 THEN oldest ELSE 0 END,
         told = CASE WHEN cursor = ?1 THEN told ELSE 0 END, cursor = ?1, lease = NULL, ready_at = ?2`,
      cursor,
      now,
    );
  }

  delete(): void {
    this.sql.exec("DELETE FROM subscription");
    this.sql.exec("DELETE FROM batches");
  }

  /** @param reason null resumes, with all attempts */
  pause(reason: string | null, now: number): void {
    this.sql.exec("UPDATE subscription SET paused = ?, ready_at = ?", reason, now);
    if (reason === null) this.sql.exec("UPDATE batches SET attempts = 0 WHERE dead = 0");
  }

  forgetDead(): void {
    this.sql.exec("DELETE FROM batches WHERE dead = 1");
  }

  /** Lines up to an index are in the log. */
  extend(newest: number): void {
    this.sql.exec("UPDATE subscription SET newest = max(newest, ?)", newest);
  }

  /** The log has no lines after the cursor, unless it was extended after `newest` was read. */
  caughtUp(newest: number): void {
    this.sql.exec("UPDATE subscription SET newest = cursor WHERE newest = ?", newest);
  }

  /**
   * Stores a batch, or without lines moves the cursor.
   * @param oldest as in the row
   * @param about further fields of the body, as JSON text
   */
  store({ lines, upTo }: Batch, oldest: number, about: string, now: number): void {
    // A batch that is built again tells of the gap again.
    this.sql.exec("UPDATE subscription SET oldest = ?1, told = max(told, ?1 - 1)", oldest);
    if (lines === null) {
      this.sql.exec("UPDATE subscription SET cursor = ?", upTo);
      return;
    }
    const id = crypto.randomUUID();
    const body = `{"Id":"${id}",${about},"Lines":[${lines}]}`;
    this.sql.exec("INSERT INTO batches (id, upto, body, at) VALUES (?, ?, ?, ?)", id, upTo, body, now);
  }

  /** Leases the batch. @returns the lease */
  lease(now: number): string {
    const lease = crypto.randomUUID();
    this.sql.exec("UPDATE subscription SET lease = ?, lease_until = ?", lease, now + LEASE_MS);
    return lease;
  }

  /** Records the outcome of a delivery. A lease that was replaced has no effect: its Worker was late. */
  settle({ lease, error, action, afterMs }: DeliveryReport, now: number): Settled {
    const row = this.row();
    const batch = this.batch();
    if (row?.lease !== lease || !batch) return "stale";
    this.sql.exec("UPDATE subscription SET lease = NULL, ready_at = ?", now);
    if (error === null) {
      this.sql.exec("DELETE FROM batches WHERE dead = 0");
      this.#advance(batch.upto);
      return "delivered";
    }
    const attempts = batch.attempts + 1;
    this.sql.exec("UPDATE batches SET attempts = ?, error = ?, at = ? WHERE dead = 0", attempts, error, now);
    if (action === "pause") {
      this.pause(error, now);
      return "paused";
    }
    if (action === "retry" && attempts < definitionOf(row).maxAttempts) {
      const readyAt = now + Math.max(afterMs, backoff(batch.attempts, BACKOFF));
      this.sql.exec("UPDATE subscription SET ready_at = ?", readyAt);
      return "retrying";
    }
    this.sql.exec("UPDATE batches SET dead = 1 WHERE dead = 0");
    this.sql.exec(
      `DELETE FROM batches WHERE seq IN (SELECT seq FROM (SELECT seq, row_number() OVER newest AS n,
         sum(octet_length(body)) OVER newest AS bytes FROM batches WINDOW newest AS (ORDER BY seq DESC))
       WHERE n > ? OR (n > 1 AND bytes > ?))`,
      MAX_DEAD,
      MAX_DEAD_BYTES,
    );
    this.#advance(batch.upto);
    return "dead";
  }

  #advance(cursor: number): void {
    this.sql.exec("UPDATE subscription SET cursor = ?, oldest = 0", cursor);
  }
}

export const definitionOf = ({ definition }: SubscriptionRow): SubscriptionDefinition =>
  JSON.parse(definition) as SubscriptionDefinition;

export const TARGET_CONTEXT = "event-subscription target";
