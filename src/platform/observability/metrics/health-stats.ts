import type { Series } from "./series.ts";

/** What every object tells of itself. */
export interface HealthStats {
  /** The size of its database. */
  readonly bytes: number;
  readonly outbox: OutboxState;
  readonly alarmLagMs: number;
  /** What there is to measure in this kind of object. */
  readonly series: readonly Series[];
}

/** Effects that are promised and not delivered yet. */
export interface OutboxState {
  readonly rows: number;
  /** How long the oldest has waited; 0 without any. */
  readonly oldestMs: number;
}

const WORST_OF_MS = 5 * 60_000;
const LONGEST_MS = 10 * 365 * 86_400_000;

/** How late an object looks at what was due. */
export class AlarmLag {
  #worst = { at: 0, ms: 0 };

  /** An alarm rings. @param due what it was for */
  recordAlarm(due: number | null, now: number): void {
    const ms = lateBy(due, now);
    if (ms >= this.#worst.ms || now - this.#worst.at > WORST_OF_MS) this.#worst = { at: now, ms };
  }

  /** The worst of the last minutes, or what is overdue now. */
  ms(due: number | null, now: number): number {
    const worst = now - this.#worst.at > WORST_OF_MS ? 0 : this.#worst.ms;
    return Math.max(worst, lateBy(due, now));
  }
}

/** What is due at a time long before this service means "at once", and says nothing about since when. */
const lateBy = (due: number | null, now: number): number =>
  due === null || due < now - LONGEST_MS ? 0 : Math.max(0, now - due);
