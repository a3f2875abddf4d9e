import type { AccountGap, FeedPage, StoredLine } from "../contracts/event-log.ts";
import { seesAccount } from "./account-gaps.ts";
import type { Framing } from "./framing.ts";
import type { Line } from "./line.ts";
import { type Filter, type Matcher, matcher } from "./subscription.ts";

/**
 * Some of the lines after a cursor, oldest first, and the index up to which there are no others. May exceed the newest
 * index.
 */
export interface Slice {
  readonly lines: Iterable<Line>;
  readonly upTo: number;
}

/** The log as seen by readers. */
export interface LogView {
  /** The newest visible index; 0 before the first. */
  newest(): number;
  /** Lines up to this index are no longer available. */
  evicted(): number;
  /** Accounts whose lines after `cursor` are not all there, although `evicted` is before it. */
  gaps(cursor: number): readonly AccountGap[];
  /**
   * The lines after `cursor`; null when they must be fetched.
   * @param traces lines without any of these in their headers may be omitted
   */
  after(cursor: number, traces: Matcher["traces"]): Slice | null;
  /** Fetches older lines, bounded; may return none, but never rejects. */
  fetch?(cursor: number, traces: Matcher["traces"]): Promise<Slice>;
}

/** Approximate size of one read: a lagging reader neither holds much memory nor delays the others. */
const CHUNK_SIZE = 32 * 1024;
/** Amount of scanned text per read for a filter with few matches, so that other readers proceed. */
const SCAN_SIZE = 256 * 1024;

/** The visible lines after a cursor, within bounds. @param traces as in `LogView.after` */
export function feedPage(log: LogView, cursor: number, traces: readonly string[] | null): FeedPage {
  const [newest, evicted] = [log.newest(), log.evicted()];
  const lines: StoredLine[] = [];
  const slice = log.after(Math.max(cursor, evicted), traces);
  let [size, upTo] = [0, Math.min(slice?.upTo ?? 0, newest)];
  for (const line of slice?.lines ?? []) {
    if (line.index > newest) break;
    lines.push([line.index, line.storedHeaders, line.text]);
    size += line.text.length;
    if (size < SCAN_SIZE) continue;
    upTo = line.index;
    break;
  }
  return { lines, upTo, evicted, gaps: log.gaps(Math.max(cursor, evicted)) };
}

interface Batch {
  readonly group: Group;
  readonly after: number;
  readonly cursor: number;
  /** Null when no line up to the cursor matches. */
  readonly bytes: Uint8Array | null;
  /** Number of lines. */
  readonly lines: number;
}

const encoder = new TextEncoder();
export const encode = (text: string): Uint8Array => encoder.encode(text);

/**
 * Readers with identical output. Their cursors are usually close together, so encoded batches are cached for all of
 * them.
 */
export class Group {
  readonly #matcher: Matcher;
  readers = 0;
  /** Cached batches by start cursor. */
  readonly cache = new Map<number, Batch>();
  /** Pending fetches by start cursor. */
  readonly fetching = new Map<number, Promise<void>>();

  constructor(
    readonly key: string,
    private readonly filter: Filter,
    readonly framing: Framing,
  ) {
    this.#matcher = matcher(filter);
  }

  /** Whether lines of an account may be for these readers. */
  sees(account: string): boolean {
    return seesAccount(this.filter, account);
  }

  /** The batch after `cursor`, encoded once; null when it must be fetched. */
  read(log: LogView, cursor: number): Batch | null {
    const slice = log.after(cursor, this.#matcher.traces);
    return slice && this.#encoded(slice, cursor, log.newest());
  }

  /** Fetches older batches after `cursor`, in order. */
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

/** Bound of the caches of all groups together. */
const MAX_CACHE_BYTES = 4 * 1024 * 1024;
/** Cost of an empty batch. */
const EMPTY_BATCH_BYTES = 200;

const costOf = ({ bytes }: Batch): number => EMPTY_BATCH_BYTES + (bytes?.length ?? 0);

/** All groups of a server. Their caches share one bound, independent of the number of groups. */
export class Groups {
  readonly #groups = new Map<string, Group>();
  /** Cached batches, oldest first. */
  readonly #cache = new Set<Batch>();
  #cacheBytes = 0;

  join(filter: Filter, framing: Framing): Group {
    const { topics, namespaces, rules, since, paths } = filter;
    const key = JSON.stringify([framing.name, topics, namespaces, rules, since, paths]);
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
    for (const batch of group.cache.values()) this.#evict(batch);
    this.#groups.delete(group.key);
  }

  /** The group's next batch after a cursor, encoded once for all its readers; null when it must be fetched. */
  read(group: Group, log: LogView, cursor: number): Batch | null {
    const known = group.cache.get(cursor);
    if (known) return known;
    const batch = group.read(log, cursor);
    if (batch && group.readers > 1) this.#addToCache(batch);
    return batch;
  }

  /** Fetches missing batches into the cache, once for all readers at the cursor. */
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
    if (this.#groups.get(group.key) === group) for (const batch of batches) this.#addToCache(batch);
  }

  #addToCache(batch: Batch): void {
    const before = batch.group.cache.get(batch.after);
    if (before) this.#evict(before);
    batch.group.cache.set(batch.after, batch);
    this.#cache.add(batch);
    this.#cacheBytes += costOf(batch);
    for (const oldest of this.#cache) {
      if (this.#cacheBytes <= MAX_CACHE_BYTES) break;
      this.#evict(oldest);
    }
  }

  #evict(batch: Batch): void {
    batch.group.cache.delete(batch.after);
    this.#cache.delete(batch);
    this.#cacheBytes -= costOf(batch);
  }
}
