import type { Framing } from "./framing.ts";
import type { Line } from "./line.ts";
import { type Filter, type Matcher, matcher } from "./subscription.ts";

/** Some of the lines after a cursor, oldest first, and the index up to which there are no others. May go beyond the newest. */
export interface Slice {
  readonly lines: Iterable<Line>;
  readonly upTo: number;
}

/** What readers need of the log. */
export interface LogView {
  /** The newest index that may be shown; 0 before the first. */
  newest(): number;
  /** Lines up to this index are no longer to be had. */
  evicted(): number;
  /**
   * What follows `cursor`; null when it is not at hand, and has to be fetched.
   * @param traces lines without any of these in their facts may be left out
   */
  after(cursor: number, traces: Matcher["traces"]): Slice | null;
  /** The same from further away, bounded; comes up with nothing at times, but never rejects. */
  fetch?(cursor: number, traces: Matcher["traces"]): Promise<Slice>;
}

/** A reader takes at most about this much at once, so that one that lags neither holds much nor keeps the others waiting. */
const CHUNK_SIZE = 32 * 1024;
/** So does a reader whose filter wants few lines: this much is looked through before others get their turn. */
export const SCAN_SIZE = 256 * 1024;

export interface Batch {
  readonly group: Group;
  readonly after: number;
  readonly cursor: number;
  /** Null when nothing up to the cursor is wanted. */
  readonly bytes: Uint8Array | null;
  /** How many lines these are. */
  readonly lines: number;
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
  /** What is being fetched, by where it begins. */
  readonly fetching = new Map<number, Promise<void>>();

  constructor(key: string, filter: Filter, framing: Framing) {
    this.key = key;
    this.framing = framing;
    this.#matcher = matcher(filter);
  }

  /** What follows `cursor`, encoded once; null when it has to be fetched. */
  read(log: LogView, cursor: number): Batch | null {
    const slice = log.after(cursor, this.#matcher.traces);
    return slice && this.#encoded(slice, cursor, log.newest());
  }

  /** What follows `cursor`, from further away: one batch after the other. */
  async fetch(log: LogView, cursor: number): Promise<Batch[]> {
    const fetched = await log.fetch?.(cursor, this.#matcher.traces);
    const batches: Batch[] = [];
    if (!fetched) return batches;
    const [lines, { upTo }, newest] = [[...fetched.lines], fetched, log.newest()];
    for (let at = cursor; at < Math.min(upTo, newest); ) {
      const batch = this.#encoded({ lines: lines.filter(({ index }) => index > at), upTo }, at, newest);
      batches.push(batch);
      at = batch.cursor;
    }
    return batches;
  }

  #encoded({ lines, upTo }: Slice, cursor: number, newest: number): Batch {
    let text = "";
    let wanted = 0;
    let looked = 0;
    let reached = cursor;
    for (const line of lines) {
      if (line.index > newest) return this.#batch(cursor, newest, text, wanted);
      const written = this.#written(line);
      if (written !== "") wanted += 1;
      text += written;
      looked += line.text.length;
      reached = line.index;
      if (text.length >= CHUNK_SIZE || looked >= SCAN_SIZE) return this.#batch(cursor, reached, text, wanted);
    }
    return this.#batch(cursor, Math.max(reached, Math.min(upTo, newest)), text, wanted);
  }

  #written(line: Line): string {
    if (this.framing.whole) return this.framing.whole(line);
    const events = line.textFor(this.#matcher, this.framing.view);
    return events ? this.framing.line(line.index, events) : "";
  }

  #batch(after: number, cursor: number, text: string, lines: number): Batch {
    return { group: this, after, cursor, bytes: text === "" ? null : encode(text), lines };
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
    const key = JSON.stringify([framing.name, filter.topics, filter.namespaces, filter.rules, filter.since]);
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

  /** The group's next bytes after a cursor, read once for all who stand there; null when they have to be fetched. */
  read(group: Group, log: LogView, cursor: number): Batch | null {
    const known = group.kept.get(cursor);
    if (known) return known;
    const batch = group.read(log, cursor);
    if (batch && group.readers > 1) this.#keep(batch);
    return batch;
  }

  /** Makes `read` find what it has not found, once for all who stand there. */
  fetch(group: Group, log: LogView, cursor: number): Promise<void> {
    let fetching = group.fetching.get(cursor);
    if (!fetching) {
      fetching = this.#fetch(group, log, cursor).finally(() => group.fetching.delete(cursor));
      group.fetching.set(cursor, fetching);
    }
    return fetching;
  }

  async #fetch(group: Group, log: LogView, cursor: number): Promise<void> {
    const batches = await group.fetch(log, cursor);
    if (this.#groups.get(group.key) === group) for (const batch of batches) this.#keep(batch);
  }

  #keep(batch: Batch): void {
    const before = batch.group.kept.get(batch.after);
    if (before) this.#forget(before);
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
