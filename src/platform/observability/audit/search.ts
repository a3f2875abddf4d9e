import { tryParseObject } from "../../../lib/json.ts";
import { recentLines } from "./recent-lines.ts";

/**
 * Searches audit lines, newest first. Reads the bucket's objects by day, hour and id (`sinks.ts`), a bounded number a
 * call; a cursor continues where a call stopped. Without a bucket, it searches the isolate's last lines.
 */

interface LineQuery {
  /** Part of a line, in any case; empty for all lines. */
  readonly text: string;
  readonly kind: string;
  /** Objects stored before this time, in ms since 1970; null for all. */
  readonly before: number | null;
  readonly limit: number;
  readonly cursor: Cursor | null;
}

/** Where a search continues. */
export interface Cursor {
  readonly key: string;
  /** Number of lines of this object that were searched; null continues with the object before it. */
  readonly lines: number | null;
}

interface FoundLines {
  /** `bucket`: all that it keeps. `isolate`: the last lines of the isolate that answered. */
  readonly source: "bucket" | "isolate";
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  /** Lines that were searched. */
  readonly searched: number;
  /** Null when everything was searched. */
  readonly next: Cursor | null;
}

/** Bounds of one call; an object holds up to a second of an isolate's lines. */
const MAX_OBJECTS = 300;
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_LISTINGS = 100;
const MAX_CONCURRENT_READS = 6;
const OBJECTS_A_LISTING = 1_000;
const HOUR_MS = 3_600_000;
/** Window of one listing at least: a denser one is listed in pages. */
const MIN_WINDOW_MS = 1_000;

export async function searchLines(bucket: R2Bucket | undefined, query: LineQuery): Promise<FoundLines> {
  const found = new Matches(query);
  if (!bucket) {
    found.take("", recentLines());
    return { source: "isolate", lines: found.lines, searched: found.searched, next: found.next };
  }
  const next = await searchBucket(bucket, query, found);
  return { source: "bucket", lines: found.lines, searched: found.searched, next };
}

async function searchBucket(bucket: R2Bucket, query: LineQuery, found: Matches): Promise<Cursor | null> {
  const keys = new NewestFirst(bucket, endOf(query));
  let objects = 0;
  let bytes = 0;
  for await (const batch of keys.batches(MAX_CONCURRENT_READS)) {
    const read = batch.map(async ({ key, size }) => ({ key, size, text: await (await bucket.get(key))?.text() }));
    for (const { key, size, text } of await Promise.all(read)) {
      found.take(key, text?.split("\n").filter(Boolean) ?? []);
      if (found.next) return found.next;
      objects += 1;
      bytes += size;
      if (objects >= MAX_OBJECTS || bytes >= MAX_BYTES) return { key, lines: null };
    }
  }
  return keys.stoppedAt === null ? null : { key: keys.stoppedAt, lines: null };
}

/** The key before which the search begins. */
function endOf({ cursor, before }: LineQuery): string {
  if (cursor) return cursor.lines === null ? cursor.key : `${cursor.key}\u0000`;
  return before === null ? LAST : keyAt(before);
}

/** Collects matching lines until there are enough. */
class Matches {
  readonly lines: Readonly<Record<string, unknown>>[] = [];
  searched = 0;
  next: Cursor | null = null;
  readonly #needle: string;

  constructor(private readonly query: LineQuery) {
    this.#needle = JSON.stringify(query.text).slice(1, -1).toLowerCase();
  }

  /** @param lines of one object, oldest first */
  take(key: string, lines: readonly string[]): void {
    const { cursor, kind, limit } = this.query;
    const skipped = cursor?.key === key ? (cursor.lines ?? 0) : 0;
    for (const [at, text] of lines.toReversed().entries()) {
      if (at < skipped) continue;
      if (this.lines.length >= limit) {
        this.next = { key, lines: at };
        return;
      }
      this.searched++;
      if (!text.toLowerCase().includes(this.#needle)) continue;
      // Null for a foreign line: the bucket is the deployment's own, and may hold others.
      const line = tryParseObject(text);
      if (line && (kind === "" || line["kind"] === kind)) this.lines.push(line);
    }
  }
}

type Listed = Pick<R2Object, "key" | "size">;

/** Keys of objects of lines, newest first. A bucket lists its keys in ascending order only. */
class NewestFirst {
  /** The key before which the search continues, after too many listings; null after the oldest object. */
  stoppedAt: string | null = null;
  #listings = 0;

  constructor(
    private readonly bucket: R2Bucket,
    private readonly end: string,
  ) {}

  async *batches(size: number): AsyncGenerator<Listed[]> {
    for (const day of await this.#folders("")) {
      if (day > this.end) continue;
      for (const hour of await this.#folders(day)) {
        if (hour > this.end) continue;
        for await (const listed of this.#hour(hour))
          for (let at = 0; at < listed.length; at += size) yield listed.slice(at, at + size);
        if (this.stoppedAt !== null) return;
      }
    }
  }

  /** Objects of an hour, window by window: a window with more objects than a listing holds is made smaller. */
  async *#hour(prefix: string): AsyncGenerator<Listed[]> {
    const start = timeOf(prefix);
    if (start === null) return;
    let end = this.end.startsWith(prefix) ? this.end : `${prefix}${LAST}`;
    let windowMs = HOUR_MS;
    for (;;) {
      const from = Math.max(start, (idTimeOf(end) ?? start + HOUR_MS) - windowMs);
      const startAfter = from <= start ? prefix : keyAt(from);
      const { objects, isWhole } = await this.#between(prefix, startAfter, end, windowMs <= MIN_WINDOW_MS);
      if (this.#listings > MAX_LISTINGS) {
        this.stoppedAt = end;
        return;
      }
      if (!isWhole) {
        windowMs = Math.max(MIN_WINDOW_MS, Math.floor(windowMs / 4));
        continue;
      }
      yield objects.reverse();
      if (from <= start) return;
      end = startAfter;
      windowMs *= 2;
    }
  }

  /** Objects with keys in `(startAfter, end)`; `isWhole` is false when one listing does not hold them. */
  async #between(prefix: string, startAfter: string, end: string, inPages: boolean) {
    const objects: Listed[] = [];
    let after = startAfter;
    for (;;) {
      this.#listings++;
      const page = await this.bucket.list({ prefix, startAfter: after, limit: OBJECTS_A_LISTING });
      objects.push(...page.objects.filter(({ key }) => key < end));
      after = page.objects.at(-1)?.key ?? end;
      if (!page.truncated || after >= end) return { objects, isWhole: true };
      if (!inPages) return { objects: [], isWhole: false };
    }
  }

  /** Days, or hours of a day, newest first. */
  async #folders(prefix: string): Promise<string[]> {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      this.#listings++;
      const page = await this.bucket.list({ prefix, delimiter: "/", ...(cursor ? { cursor } : {}) });
      found.push(...page.delimitedPrefixes.filter((name) => timeOf(prefix === "" ? `${name}00/` : name) !== null));
      cursor = page.truncated ? page.cursor : undefined;
    } while (cursor);
    return found.sort().reverse();
  }
}

/** Greater than all ids and folders. */
const LAST = "~";
const HOUR = /^(\d{4}-\d\d-\d\d)\/(\d\d)\//;
const ID = /^.{14}([0-9a-f]{8})-([0-9a-f]{4})-/;

/** The start of the hour of a key; null for a key of another kind. */
function timeOf(key: string): number | null {
  const [, day, hour] = HOUR.exec(key) ?? [];
  const time = Date.parse(`${day}T${hour}:00:00Z`);
  return Number.isNaN(time) ? null : time;
}

/** The time of the id in a key. */
function idTimeOf(key: string): number | null {
  const [, high, low] = ID.exec(key) ?? [];
  return high !== undefined && low !== undefined ? Number.parseInt(high + low, 16) : null;
}

/** The least key of an object of that time. */
function keyAt(time: number): string {
  const [day = "", hour = ""] = new Date(time).toISOString().split(/[T:]/);
  const id = time.toString(16).padStart(12, "0");
  return `${day}/${hour}/${id.slice(0, 8)}-${id.slice(8)}-`;
}
