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
const CHUNK_SIZE = 32 * 1024;
/** So does a reader whose filter wants few lines: this much is looked through before others get their turn. */
const SCAN_SIZE = 256 * 1024;

export interface Batch {
  readonly group: Group;
  readonly after: number;
  readonly cursor: number;
  /** Null when nothing up to the cursor is wanted. */
  readonly bytes: Uint8Array | null;
}

const encoder = new TextEncoder();
export const encode = (text: string): Uint8Array => encoder.encode(text);

/** Readers who get the same bytes. They usually stand close together, so what one of them has read is kept for the others. */
export class Group {
  readonly key: string;
  readonly framing: Framing;
  readonly #matcher: Matcher;
  readers = 0;
  /** What is kept, by where it begins. */
  readonly kept = new Map<number, Batch>();

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
      if (line.index > newest) return this.#batch(cursor, newest, text);
      const events = line.textFor(this.#matcher, this.framing.view);
      if (events) text += this.framing.line(line.index, events);
      looked += line.text.length;
      reached = line.index;
      if (text.length >= CHUNK_SIZE || looked >= SCAN_SIZE) return this.#batch(cursor, reached, text);
    }
    return this.#batch(cursor, Math.max(reached, Math.min(upTo, newest)), text);
  }

  #batch(after: number, cursor: number, text: string): Batch {
    return { group: this, after, cursor, bytes: text === "" ? null : encode(text) };
  }
}

/** What groups keep for their other readers, all together. */
const KEPT_BYTES = 4 * 1024 * 1024;
/** What an empty batch costs. */
const LEAST_BYTES = 200;

const costOf = ({ bytes }: Batch): number => LEAST_BYTES + (bytes?.length ?? 0);

/** The groups there are. What they keep is bounded together, whatever their number. */
export class Groups {
  readonly #groups = new Map<string, Group>();
  /** What is kept, the oldest first. */
  readonly #kept = new Set<Batch>();
  #keptBytes = 0;

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
    for (const batch of group.kept.values()) this.#forget(batch);
    this.#groups.delete(group.key);
  }

  /** The group's next bytes after a cursor, read once for all who stand there. */
  read(group: Group, log: LogView, cursor: number): Batch {
    const known = group.kept.get(cursor);
    if (known) return known;
    const batch = group.read(log, cursor);
    if (group.readers > 1) this.#keep(batch);
    return batch;
  }

  #keep(batch: Batch): void {
    batch.group.kept.set(batch.after, batch);
    this.#kept.add(batch);
    this.#keptBytes += costOf(batch);
    for (const oldest of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES) break;
      this.#forget(oldest);
    }
  }

  #forget(batch: Batch): void {
    batch.group.kept.delete(batch.after);
    this.#kept.delete(batch);
    this.#keptBytes -= costOf(batch);
  }
}
