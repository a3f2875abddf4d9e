import { backoff } from "../work/backoff.ts";
import { Kept } from "../work/kept.ts";
import { isCall, type SyncResult } from "./association.ts";

/** So many failures in a row, and a destination is tried once at a time, with growing pauses. */
const FAILURES = 5;
const CAP_MS = 300_000;

export interface BreakerView {
  readonly failures: number;
  /** Nothing is tried before (ms since 1970). */
  readonly openUntil: number;
}

/**
 * The circuit breaker of one destination: what fails for every secret (the provider is down, the credentials are dead) is
 * found out with one, not with each of a million. Methods that write are called inside the object's transaction.
 */
export class Breaker {
  readonly #sql: SqlStorage;
  readonly #row: Kept<{ readonly failures: number; readonly open_until: number } | null>;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#row = new Kept(
      () => sql.exec<{ failures: number; open_until: number }>("SELECT * FROM breaker").toArray()[0] ?? null,
    );
  }

  /** What is kept of it in memory may not be true any more. */
  forget(): void {
    this.#row.forget();
  }

  /** Null while it is closed. */
  view(): BreakerView | null {
    const row = this.#row.get();
    return row && row.failures >= FAILURES ? { failures: row.failures, openUntil: row.open_until } : null;
  }

  /** How many tasks may be out at a time, of `atOnce`. */
  limit(atOnce: number, now: number): number {
    const open = this.view();
    if (!open) return atOnce;
    return open.openUntil > now ? 0 : 1;
  }

  ended(result: SyncResult, now: number): void {
    const troubles = [result.trouble, ...result.copies.map((copy) => copy.trouble)].filter((one) => one !== undefined);
    // A throttle is answered by the pause it asks for; our own failures say nothing of the destination.
    const broken = troubles.some(
      ({ outcome, code }) =>
        code === "auth_failed" ||
        ((outcome === "external" || outcome === "unknown") && code !== "throttled" && code !== "paused"),
    );
    const before = this.#row.get()?.failures ?? 0;
    if (broken)
      this.#store(before + 1, before + 1 < FAILURES ? 0 : now + backoff(before + 1 - FAILURES, { cap: CAP_MS }));
    else if (before > 0 && result.copies.some((copy) => !copy.trouble && isCall(copy))) this.close();
  }

  /** What it broke for may be repaired. */
  close(): void {
    this.#sql.exec("DELETE FROM breaker");
    this.#row.forget();
  }

  #store(failures: number, openUntil: number): void {
    this.#sql.exec(
      `INSERT INTO breaker VALUES (1, ?, ?)
       ON CONFLICT (id) DO UPDATE SET failures = excluded.failures, open_until = excluded.open_until`,
      failures,
      openUntil,
    );
    this.#row.forget();
  }
}
