import type { Series } from "./series.ts";

/** Health stats that every object reports. */
export interface HealthStats {
  /** The size of its database. */
  readonly bytes: number;
  readonly outbox: OutboxState;
  readonly alarmLagMs: number;
  /** Metrics of this object type. */
  readonly series: readonly Series[];
}

/** Pending outbox rows. */
export interface OutboxState {
  readonly rows: number;
  /** Age of the oldest; 0 without any. */
  readonly oldestMs: number;
}

const WORST_OF_MS = 5 * 60_000;
const MAX_LAG_MS = 10 * 365 * 86_400_000;

/** Delay between a deadline and the alarm that processes it. */
export class AlarmLag {
  #worst = { at: 0, ms: 0 };

  /** Records an alarm. @param due its deadline */
  recordAlarm(due: number | null, now: number): void {
    const ms = lateBy(due, now);
    if (ms >= this.#worst.ms || now - this.#worst.at > WORST_OF_MS) this.#worst = { at: now, ms };
  }

  /** The largest delay of the last minutes, or the current overdue time. */
  ms(due: number | null, now: number): number {
    const worst = now - this.#worst.at > WORST_OF_MS ? 0 : this.#worst.ms;
    return Math.max(worst, lateBy(due, now));
  }
}

/** A deadline long before this service existed means "immediately" and has no delay. */
const lateBy = (due: number | null, now: number): number =>
  due === null || due < now - MAX_LAG_MS ? 0 : Math.max(0, now - due);
