import type { Append } from "./event.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** What the buffer holds; `oldest` is 0 when it is empty. */
export interface Bounds {
  readonly oldest: number;
  readonly newest: number;
}

/** Part of the backlog, for readers of a relay who are behind what it holds. */
export interface FeedPage {
  readonly lines: readonly StoredLine[];
  /** There are no others up to here. */
  readonly upTo: number;
  /** Lines up to this index have left the buffer. */
  readonly evicted: number;
}

/** A line as it is stored: its index, its facts if they were, and its events, all as they stand in the log. */
export type StoredLine = readonly [index: number, facts: string | null, events: string];

/** The methods of `EventLog` that other objects and Workers call. */
export interface EventLogApi extends StoredObjectApi {
  /**
   * Appends lines, one per entry, in order. Idempotent by (source, seq): a repeated entry adds nothing and gets its first
   * index again, or the newest index of its source once its line has left the buffer.
   * @returns the index of each entry
   */
  append(source: string, entries: readonly Append[]): Promise<number[]>;
  /** The newest index given out; 1 before the first event, because an index is never 0 on the wire. */
  newest(): number;
  /** What the buffer holds, and how many readers are open. `oldest` is 0 when it is empty. */
  state(): {
    lines: number;
    bytes: number;
    oldest: number;
    newest: number;
    readers: number;
  };
  /** What may be shown now. */
  bounds(): Bounds;
  /** Some of the lines after a cursor, for a relay. */
  lines(cursor: number, traces: readonly string[] | null): FeedPage;
  /** The names of the relays that follow now. */
  relays(): string[];
}
