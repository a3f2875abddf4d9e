import type { SyncResult } from "../../contracts/sync-tasks.ts";
import { backoff } from "../../lib/backoff.ts";
import { FRESH_CAP_MS, isRefusalOfRights } from "../fresh-rights.ts";
import { SingleRow } from "../rows.ts";
import { affectsDestination, isCall } from "./retry-policy.ts";

/** The breaker opens after failures of this many associations without a success in between. */
const ASSOCIATIONS = 5;
const CAP_MS = 300_000;
/** The longest pause while at least one association has succeeded since the failures began. */
const PARTLY_UP_CAP_MS = 30_000;

interface BreakerRow extends Record<string, SqlStorageValue> {
  /** Failures since the last success. */
  readonly failures: number;
  /** 0 while it is closed. */
  readonly open_until: number;
  /** Sequence number of failures, independent of clocks. */
  readonly events: number;
  /** `events` at the last success. */
  readonly succeeded: number;
  /** Failures since the breaker opened. */
  readonly trials: number;
}

const NEW: BreakerRow = { failures: 0, open_until: 0, events: 0, succeeded: 0, trials: 0 };

/**
 * The circuit breaker of one destination. A failure that affects every secret (provider down, credentials revoked) is
 * detected with a few associations instead of all of them. It counts associations, not attempts, so one that always
 * fails does not block the others. Costs one row per association whose last attempt failed. Methods that write are
 * called inside the object's transaction.
 *
 *            5 associations fail          pause over
 *   closed ----------------------> open ------------> trial (one task at a time)
 *     ^                             ^                   |   |
 *     |                             +---- it fails -----+   |
 *     +------------- success, or close() -------------------+
 */
export class Breaker {
  readonly #row: SingleRow<BreakerRow>;

  constructor(private readonly sql: SqlStorage) {
    this.#row = new SingleRow(sql, "breaker");
  }

  /** Drops the cached row after a rollback. */
  forget(): void {
    this.#row.forget();
  }

  /** Null while it is closed. No task is leased before `openUntil` (ms since 1970). */
  view(): { readonly failures: number; readonly openUntil: number } | null {
    const row = this.#row.get();
    return row && row.open_until > 0 ? { failures: row.failures, openUntil: row.open_until } : null;
  }

  /** How many of `atOnce` tasks may be leased at a time. */
  limit(atOnce: number, now: number): number {
    const open = this.view();
    if (!open) return atOnce;
    return open.openUntil > now ? 0 : 1;
  }

  /** Records the result of a task. @param isFresh rights may not be in effect yet, for any association */
  record({ lease, trouble, copies }: SyncResult, now: number, isFresh = false): void {
    const troubles = [trouble, ...copies.map((copy) => copy.trouble)].filter((one) => one !== undefined);
    const broken = troubles.some((one) => affectsDestination(one) || (isFresh && isRefusalOfRights(one)));
    // One object that was pushed shows that the destination is reachable.
    if (copies.some((copy) => !copy.trouble && isCall(copy))) this.#succeed();
    if (broken) this.#fail(lease.id, now, isFresh ? FRESH_CAP_MS : CAP_MS);
    else if (this.#row.get() && troubles.every(({ outcome }) => outcome === "client")) {
      this.sql.exec("DELETE FROM failing WHERE association = ?", lease.id);
    }
  }

  /** Closes the breaker, for instance after a change of the configuration. */
  close(): void {
    this.#row.delete();
    this.sql.exec("DELETE FROM failing");
  }

  #succeed(): void {
    const row = this.#row.get();
    if (row && row.failures > 0) this.#row.put({ ...NEW, events: row.events, succeeded: row.events });
  }

  #fail(association: string, now: number, longest: number): void {
    const before = this.#row.get() ?? NEW;
    const events = before.events + 1;
    this.sql.exec(
      "INSERT INTO failing VALUES (?1, ?2, ?2) ON CONFLICT (association) DO UPDATE SET latest = excluded.latest",
      association,
      events,
    );
    const failures = before.failures + 1;
    if (before.open_until === 0 && this.#count("latest", before.succeeded) < ASSOCIATIONS) {
      this.#row.put({ ...before, failures, events });
      return;
    }
    const cap = this.#count("since", before.succeeded) < ASSOCIATIONS ? PARTLY_UP_CAP_MS : longest;
    const open_until = now + backoff(before.trials, { cap });
    this.#row.put({ ...before, failures, events, open_until, trials: before.trials + 1 });
  }

  /** Counts associations whose first or latest failure came after an event, up to the threshold. */
  #count(column: "since" | "latest", after: number): number {
    const query = `SELECT count(*) AS n FROM (SELECT 1 FROM failing WHERE ${column} > ? LIMIT ?)`;
    return this.sql.exec<{ n: number }>(query, after, ASSOCIATIONS).one().n;
  }
}
