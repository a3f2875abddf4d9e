import type { Migration } from "./migrations.ts";

/** Time for the inline drain after a commit before the alarm takes over. */
export const GRACE_MS = 2_000;

/** The lanes of a topic, for an inventory of objects. */
export const lanesOf = (topic: string): string => `SELECT DISTINCT lane AS name FROM outbox WHERE topic = '${topic}'`;

/** The number of rows of a topic. Costs a walk over them. */
export const rowsOf = (sql: SqlStorage, topic: string): number =>
  sql.exec<{ n: number }>("SELECT count(*) AS n FROM outbox WHERE topic = ?", topic).one().n;

/** A step of a schema that enlists an effect where a table has rows. */
export const enlistStep = (topic: string, lane: string, table: string): Migration =>
  `INSERT INTO outbox (topic, lane, seq, body, enlisted)
     SELECT '${topic}', '${lane}', 1, 'null', 0 WHERE EXISTS (SELECT 1 FROM ${table})`;

/** Retry state of a lane with rows. */
interface LaneState {
  readonly attempts: number;
  /** When to try the lane (ms since 1970). */
  readonly due: number;
  /** When its oldest row was enlisted; 0 = not known. */
  readonly since: number;
  /** The number of its newest row, or a greater one. */
  readonly newest: number;
  /** At least the bytes of its rows together. */
  readonly bytes: number;
}

/** The newest row of a lane that was not read. */
export const UNKNOWN_NUMBER = Number.MAX_SAFE_INTEGER;
const UNKNOWN = { newest: UNKNOWN_NUMBER, bytes: Number.POSITIVE_INFINITY };

/**
 * The lanes of an outbox that hold rows, with their retry state. In memory: a restart reads the lanes, two index seeks
 * each, and tries each as if for the first time. A lane may be listed without rows, never the other way round.
 */
export class OutboxLanes {
  #topics: Map<string, Map<string, LaneState>> | null = null;
  /** The earliest `due`, or an earlier time; null without lanes. */
  #next: number | null = null;

  constructor(private readonly sql: SqlStorage) {}

  forget(): void {
    this.#topics = null;
  }

  find(topic: string, lane: string): LaneState | undefined {
    return this.#all().get(topic)?.get(lane);
  }

  /** Adds a row to a lane. @param state that of a lane without other rows */
  add(topic: string, lane: string, state: LaneState): void {
    const { newest, bytes } = state;
    const before = this.find(topic, lane);
    this.#set(topic, lane, before ? { ...before, newest, bytes: before.bytes + bytes } : state);
  }

  /** Sets when a lane with rows is tried again. */
  retry(topic: string, lane: string, state: Omit<LaneState, "newest" | "bytes">): void {
    const { newest, bytes } = this.find(topic, lane) ?? UNKNOWN;
    this.#set(topic, lane, { ...state, newest, bytes });
  }

  #set(topic: string, lane: string, state: LaneState): void {
    const topics = this.#all();
    const lanes = topics.get(topic) ?? new Map<string, LaneState>();
    topics.set(topic, lanes.set(lane, state));
    this.#next = Math.min(this.#next ?? state.due, state.due);
  }

  delete(topic: string, lane: string): void {
    const topics = this.#all();
    const lanes = topics.get(topic);
    if (lanes?.delete(lane) && lanes.size === 0) topics.delete(topic);
  }

  /** The lanes of a topic that may be tried. */
  ready(topic: string, now: number): string[] {
    const lanes = [...(this.#all().get(topic) ?? [])];
    return lanes.filter(([, { attempts, due }]) => attempts === 0 || due <= now).map(([lane]) => lane);
  }

  /** The earliest `due`. Lanes that are gone may make it too early; it is found again once that time has passed. */
  nextDue(): number | null {
    const topics = this.#all();
    if (topics.size === 0) this.#next = null;
    else if (this.#next === null || this.#next <= Date.now()) this.#next = this.#least(({ due }) => due);
    return this.#next;
  }

  /** When the oldest row was enlisted; null without rows. */
  oldest(): number | null {
    return this.#all().size === 0 ? null : this.#least(({ since }) => since);
  }

  #least(of: (state: LaneState) => number): number {
    let least = Number.POSITIVE_INFINITY;
    for (const lanes of this.#all().values()) for (const state of lanes.values()) least = Math.min(least, of(state));
    return least;
  }

  #all(): Map<string, Map<string, LaneState>> {
    if (this.#topics) return this.#topics;
    this.#topics = new Map();
    this.#next = null;
    for (let [topic, lane] = ["", ""]; ; ) {
      const [head] = this.sql
        .exec<{ topic: string; lane: string; enlisted: number; newest: number }>(
          `SELECT topic, lane, enlisted,
             (SELECT max(seq) FROM outbox AS own WHERE own.topic = oldest.topic AND own.lane = oldest.lane) AS newest
           FROM outbox AS oldest WHERE (topic, lane) > (?, ?) ORDER BY topic, lane, seq LIMIT 1`,
          topic,
          lane,
        )
        .toArray();
      if (!head) return this.#topics;
      ({ topic, lane } = head);
      const { newest, enlisted: since } = head;
      this.#set(topic, lane, { attempts: 0, due: since + GRACE_MS, since, newest, bytes: UNKNOWN.bytes });
    }
  }
}
