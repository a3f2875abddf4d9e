import { backoff } from "../lib/backoff.ts";
import { Kept } from "../platform/durable/memo.ts";
import { isCall, type SyncResult, type Trouble } from "./association.ts";

/** Failures of so many associations without a success between them open the breaker. */
const ASSOCIATIONS = 5;
const CAP_MS = 300_000;
/** The longest pause while the destination has served some association since the others began to fail. */
const PARTLY_UP_CAP_MS = 30_000;

/**
 * Failures that the next association would meet, too. Every other code concerns one name (`contended`, `name_held`, `conflict`),
 * is our own failure, or is answered by the pause that it asks for (`throttled`, `paused`).
 */
const GENERAL: ReadonlySet<string> = new Set([
  "auth_failed",
  "provider_unavailable",
  "network_error",
  "deadline_exceeded",
  "unreadable_answer",
  "answer_too_large",
]);

export interface BreakerView {
  readonly failures: number;
  /** Nothing is tried before (ms since 1970). */
  readonly openUntil: number;
}

interface Row extends Record<string, SqlStorageValue> {
  /** Failures since the last success. */
  readonly failures: number;
  /** 0 while it is closed. */
  readonly open_until: number;
  /** Counts failures; what is later has the greater number, whatever clocks say. */
  readonly events: number;
  /** `events` at the last success. */
  readonly succeeded: number;
  /** Failures since it opened. */
  readonly trials: number;
}

const NEW: Row = { failures: 0, open_until: 0, events: 0, succeeded: 0, trials: 0 };

/**
 * The circuit breaker of one destination: what fails for every secret (the provider is down, the credentials are dead) is
 * found out with a few, not with each of a million. It counts associations, so one that always fails holds up no other.
 * Costs one row for each association whose last attempt failed. Methods that write are called inside the object's transaction.
 */
export class Breaker {
  readonly #sql: SqlStorage;
  readonly #row: Kept<Row | null>;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#row = new Kept(() => sql.exec<Row>("SELECT * FROM breaker").toArray()[0] ?? null);
  }

  /** What is kept of it in memory may not be true any more. */
  forget(): void {
    this.#row.forget();
  }

  /** Null while it is closed. */
  view(): BreakerView | null {
    const row = this.#row.get();
    return row && row.open_until > 0 ? { failures: row.failures, openUntil: row.open_until } : null;
  }

  /** How many tasks may be out at a time, of `atOnce`. */
  limit(atOnce: number, now: number): number {
    const open = this.view();
    if (!open) return atOnce;
    return open.openUntil > now ? 0 : 1;
  }

  record({ claim, trouble, copies }: SyncResult, now: number): void {
    const troubles = [trouble, ...copies.map((copy) => copy.trouble)].filter((one) => one !== undefined);
    const broken = troubles.some(isGeneral);
    // Of several objects some may have been pushed: then the destination is there.
    if (copies.some((copy) => !copy.trouble && isCall(copy))) this.#succeed();
    if (broken) this.#fail(claim.id, now);
    else if (this.#row.get() && troubles.every(({ outcome }) => outcome === "client")) {
      this.#sql.exec("DELETE FROM failing WHERE association = ?", claim.id);
    }
  }

  /** Closes it, because its cause may be repaired. */
  close(): void {
    this.#sql.exec("DELETE FROM breaker");
    this.#sql.exec("DELETE FROM failing");
    this.#row.forget();
  }

  #succeed(): void {
    const row = this.#row.get();
    if (row && row.failures > 0) this.#store({ ...NEW, events: row.events, succeeded: row.events });
  }

  #fail(association: string, now: number): void {
    const before = this.#row.get() ?? NEW;
    const events = before.events + 1;
    this.#sql.exec(
      "INSERT INTO failing VALUES (?1, ?2, ?2) ON CONFLICT (association) DO UPDATE SET latest = excluded.latest",
      association,
      events,
    );
    const failures = before.failures + 1;
    if (before.open_until === 0 && this.#count("latest", before.succeeded) < ASSOCIATIONS) {
      this.#store({ ...before, failures, events });
      return;
    }
    const cap = this.#count("since", before.succeeded) < ASSOCIATIONS ? PARTLY_UP_CAP_MS : CAP_MS;
    const open_until = now + backoff(before.trials, { cap });
    this.#store({ ...before, failures, events, open_until, trials: before.trials + 1 });
  }

  /** Associations whose failures began, or were last seen, after an event; counted as far as it matters. */
  #count(column: "since" | "latest", after: number): number {
    const query = `SELECT count(*) AS n FROM (SELECT 1 FROM failing WHERE ${column} > ? LIMIT ?)`;
    return this.#sql.exec<{ n: number }>(query, after, ASSOCIATIONS).one().n;
  }

  #store({ failures, open_until, events, succeeded, trials }: Row): void {
    this.#sql.exec(
      `INSERT INTO breaker (id, failures, open_until, events, succeeded, trials) VALUES (1, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET failures = excluded.failures, open_until = excluded.open_until,
         events = excluded.events, succeeded = excluded.succeeded, trials = excluded.trials`,
      failures,
      open_until,
      events,
      succeeded,
      trials,
    );
    this.#row.forget();
  }
}

const isGeneral = ({ outcome, code }: Trouble): boolean =>
  GENERAL.has(code) && (outcome === "external" || outcome === "unknown" || code === "auth_failed");
