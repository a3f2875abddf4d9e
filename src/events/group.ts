import type { Framing } from "./framing.ts";
import type { Line } from "./line.ts";
import { type Filter, type Matcher, matcher } from "./subscription.ts";

/** What readers need of the log. */
export interface LogView {
  /** The newest index that may be shown; 0 before the first. */
  newest(): number;
  /** Lines up to this index are no longer to be had. */
  evicted(): number;
  /**
   * Some of the lines after `cursor`, oldest first, and the index up to which there are no others. May go beyond the newest.
   * @param traces lines without any of these in their facts may be left out
   */
  after(cursor: number, traces: Matcher["traces"]): { readonly lines: Iterable<Line>; readonly upTo: number };
}

/** A reader takes at most about this much at once, so that one that lags neither holds much nor keeps the others waiting. */
const CHUNK_SIZE = 64 * 1024;
/** So does a reader whose filter wants few lines: this much is looked through before others get their turn. */
const SCAN_SIZE = 256 * 1024;

export interface Batch {
  readonly after: number;
  readonly cursor: number;
  /** Null when nothing up to the cursor is wanted. */
  readonly bytes: Uint8Array | null;
}

const encoder = new TextEncoder();
export const encode = (text: string): Uint8Array => encoder.encode(text);

/** Readers who get the same bytes. They usually stand at the same line, so what one of them read last is kept for the others. */
export class Group {
  readonly key: string;
  readonly framing: Framing;
  readonly #matcher: Matcher;
  readers = 0;
  last: Batch | undefined;

  constructor(key: string, filter: Filter, framing: Framing) {
    this.key = key;
    this.framing = framing;
    this.#matcher = matcher(filter);
  }

  /** What follows `cursor`, encoded once. */
  read(log: LogView, cursor: number): Batch {
    const newest = log.newest();
    const { lines, upTo } = log.after(cursor, this.#matcher.traces);
    let text = "";
    let looked = 0;
    let reached = cursor;
    for (const line of lines) {
      if (line.index > newest) return batch(cursor, newest, text);
      const events = line.textFor(this.#matcher, this.framing.view);
      if (events) text += this.framing.line(line.index, events);
      looked += line.text.length;
      reached = line.index;
      if (text.length >= CHUNK_SIZE || looked >= SCAN_SIZE) return batch(cursor, reached, text);
    }
    return batch(cursor, Math.max(reached, Math.min(upTo, newest)), text);
  }
}

const batch = (after: number, cursor: number, text: string): Batch => ({
  after,
  cursor,
  bytes: text === "" ? null : encode(text),
});

/** What groups keep for their other readers, all together. */
const KEPT_BYTES = 8 * 1024 * 1024;

/** The groups there are. What they keep is bounded together, whatever their number. */
export class Groups {
  readonly #groups = new Map<string, Group>();
  /** Those that keep a batch, the oldest first. */
  readonly #keeping = new Set<Group>();
  #kept = 0;

  join(filter: Filter, framing: Framing): Group {
    const key = JSON.stringify([framing.name, filter.topics, filter.namespaces, filter.rules]);
    let group = this.#groups.get(key);
    if (!group) {
      group = new Group(key, filter, framing);
      this.#groups.set(key, group);
    }
    group.readers += 1;
    return group;
  }

  leave(group: Group): void {
    group.readers -= 1;
    if (group.readers > 0) return;
    this.#forget(group);
    this.#groups.delete(group.key);
  }

  /** The group's next bytes after a cursor, read once for all who stand there. */
  read(group: Group, log: LogView, cursor: number): Batch {
    if (group.last?.after === cursor) return group.last;
    const read = group.read(log, cursor);
    this.#forget(group);
    if (group.readers > 1) this.#keep(group, read);
    return read;
  }

  #keep(group: Group, read: Batch): void {
    group.last = read;
    this.#keeping.add(group);
    this.#kept += read.bytes?.length ?? 0;
    for (const oldest of this.#keeping) {
      if (this.#kept <= KEPT_BYTES) break;
      this.#forget(oldest);
    }
  }

  #forget(group: Group): void {
    this.#kept -= group.last?.bytes?.length ?? 0;
    group.last = undefined;
    this.#keeping.delete(group);
  }
}
