import type { WorkList } from "../work/work-list.ts";

/** What `SyncControl` answers to a destination that says how much of the queue it needs. */
export interface Granted {
  /** How many pending operations the destination may have queued. */
  readonly granted: number;
  /** So little room is left that what is not needed should be given back at once. */
  readonly scarce: boolean;
}

interface Host {
  readonly sql: SqlStorage;
  readonly work: WorkList;
  commit<T>(change: () => T): T;
  /** States the destination's whole need; only the newest statement counts. */
  exchange(wanted: number): Promise<Granted>;
}

/** While there is no room, it is asked for again after this long. */
const ASK_AGAIN_MS = 2_000;
/** Room that is not needed any more is given back after this long, or with the next question. */
const GIVE_BACK_MS = 500;

/**
 * A destination's share of the queue. Each question to `SyncControl` states the whole need (what is queued, what waits, who
 * is about to add), one question at a time: so they are absolute, and one that was lost is healed by the next.
 */
export class Share {
  readonly #host: Host;
  /** Admitted, but not committed yet. */
  #reserved = 0;
  /** Callers that wait for room. */
  #asking = 0;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<Granted> | null = null;
  #quietUntil = 0;
  #scarce = false;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Whether one more row may be queued without asking. */
  hasRoom(): boolean {
    return this.#granted() > this.#host.work.queued() + this.#reserved;
  }

  /** Room for one row, to be given back with `release` once it is committed or given up. @returns false when the queue is full */
  async reserve(): Promise<boolean> {
    if (!this.hasRoom()) {
      this.#asking++;
      try {
        await this.ask();
      } finally {
        this.#asking--;
      }
      if (!this.hasRoom()) return false;
    }
    this.#reserved++;
    return true;
  }

  release(): void {
    this.#reserved--;
  }

  /** Brings the share in line with the need, and queues what waited for room. Who comes meanwhile shares the next question. */
  ask(): Promise<Granted> {
    if (this.#next) return this.#next;
    const next = this.#running.then(() => {
      this.#next = null;
      return this.#askNow();
    });
    this.#next = next;
    this.#running = next.catch(() => undefined);
    return next;
  }

  /** The question is about to be asked: no alarm is needed for it. */
  expectAsk(now: number): void {
    this.#quietUntil = Math.max(this.#quietUntil, now + ASK_AGAIN_MS);
  }

  /** Whether room should be given back at once: nothing is left to do, or others wait for what is not needed here. */
  isSpare(): boolean {
    const { work } = this.#host;
    const needed = work.queued() + work.waiting() + this.#reserved;
    return this.#granted() > needed && (needed === 0 || this.#scarce);
  }

  /** When the alarm should ask: something waits for room, or room is not needed any more. Null: all is well. */
  due(): number | null {
    const { work } = this.#host;
    if (work.waiting() > 0) return this.#quietUntil;
    return this.#granted() > work.queued() + this.#reserved ? this.#quietUntil + GIVE_BACK_MS : null;
  }

  async #askNow(): Promise<Granted> {
    const { work, sql, commit } = this.#host;
    this.#quietUntil = Date.now() + ASK_AGAIN_MS;
    const answer = await this.#host.exchange(work.queued() + work.waiting() + this.#reserved + this.#asking);
    this.#scarce = answer.scarce;
    commit.call(this.#host, () => {
      if (answer.granted !== this.#granted()) {
        sql.exec(
          "INSERT INTO share VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET granted = excluded.granted",
          answer.granted,
        );
      }
      work.promote(answer.granted - work.queued() - this.#reserved);
    });
    return answer;
  }

  #granted(): number {
    return this.#host.sql.exec<{ granted: number }>("SELECT granted FROM share").toArray()[0]?.granted ?? 0;
  }
}
