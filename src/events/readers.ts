import { encodeLine, type Line } from "./line.ts";
import { type Matcher, matcher, type Subscription } from "./subscription.ts";

/** What readers need of the log. */
export interface LogView {
  /** The newest index that may be shown; 0 before the first. */
  newest(): number;
  /** Lines up to this index are no longer to be had. */
  evicted(): number;
  /** Some of the lines after `cursor`, oldest first; none only when there are none. May go beyond the newest. */
  after(cursor: number): Iterable<Line>;
}

/** A reader that waits takes at most about this many bytes at once, so that no reader keeps the others waiting. */
const CHUNK_BYTES = 64 * 1024;
/** So does a reader whose filter wants few lines: this much is looked through before others get their turn. */
const SCAN_SIZE = 256 * 1024;

interface Batch {
  readonly after: number;
  readonly cursor: number;
  readonly bytes: Uint8Array | null;
}

/** Readers who want the same. They usually stand at the same line, so what one of them read last is kept for the others. */
interface Group {
  readonly matcher: Matcher;
  readers: number;
  last: Batch | undefined;
}

interface Reader {
  readonly group: Group;
  readonly heartbeat: Subscription["heartbeat"];
  /** Whether it must still be told when it is cut. */
  errors: boolean;
  /** The last index this reader has passed. */
  cursor: number;
  /** The beat that this reader has had something in; null before its first bytes. */
  beat: number | null;
  state: "open" | "cut" | "gone";
}

/**
 * Everybody who reads the stream. Each reader is a cursor that pulls: it has no queue, and one that stalls costs nothing but
 * its cursor, until its next line leaves the buffer; then it is cut, because going on would hide the loss.
 */
export class Readers {
  readonly #log: LogView;
  readonly #beatMs: () => number;
  readonly #groups = new Map<string, Group>();
  #count = 0;
  #news = Promise.withResolvers<void>();
  #beats = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(log: LogView, beatMs: () => number) {
    this.#log = log;
    this.#beatMs = beatMs;
  }

  get count(): number {
    return this.#count;
  }

  /** Tells those who wait that there is something to look at. */
  wake(): void {
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers<void>();
    resolve();
  }

  /** One more reader, until its stream is cancelled or `signal` fires. */
  open(subscription: Subscription, signal: AbortSignal): ReadableStream<Uint8Array> {
    const reader = this.#enter(subscription);
    const gone = () => this.#leave(reader, "gone");
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone);
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const bytes = await this.#next(reader);
            if (bytes) controller.enqueue(bytes);
            else if (reader.state === "cut") controller.close();
          } catch (failure) {
            gone();
            throw failure;
          }
        },
        cancel: gone,
      },
      { highWaterMark: 0 },
    );
  }

  #enter({ topics, namespaces, from, heartbeat, errors }: Subscription): Reader {
    const key = JSON.stringify([topics, namespaces]);
    const group = this.#groups.get(key) ?? { matcher: matcher({ topics, namespaces }), readers: 0, last: undefined };
    this.#groups.set(key, group);
    group.readers += 1;
    this.#count += 1;
    this.#startBeating();
    const cursor = from < 0 ? this.#log.newest() : Math.max(from - 1, this.#log.evicted());
    return { group, heartbeat, errors, cursor, beat: null, state: "open" };
  }

  #leave(reader: Reader, state: "cut" | "gone"): void {
    if (reader.state !== "open") return;
    reader.state = state;
    this.#count -= 1;
    reader.group.readers -= 1;
    if (reader.group.readers === 0) {
      for (const [key, group] of this.#groups) if (group === reader.group) this.#groups.delete(key);
    }
    if (this.#count > 0) return;
    // Nobody is left: no timer keeps the object awake, and a read that still waits ends.
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.wake();
  }

  /** The reader's next bytes, as soon as there are some; null when its stream is over. */
  async #next(reader: Reader): Promise<Uint8Array | null> {
    if (reader.beat === null && reader.heartbeat === "empty") return this.#heartbeat(reader);
    while (reader.state === "open") {
      if (reader.cursor < this.#log.evicted()) return this.#cut(reader);
      const bytes = this.#read(reader);
      if (bytes) {
        reader.beat = this.#beats;
        return bytes;
      }
      const atEnd = reader.cursor >= this.#log.newest();
      // The answer's head leaves with its first bytes, so who has no backlog is greeted at once.
      if (reader.beat === null ? atEnd : reader.beat !== this.#beats) return this.#heartbeat(reader);
      // A long backlog without a line for this reader must not keep the others waiting.
      await (atEnd ? this.#news.promise : scheduler.wait(0));
    }
    return null;
  }

  /** Moves the reader on, past what is not for it, and returns what is. */
  #read(reader: Reader): Uint8Array | null {
    const { group, cursor } = reader;
    if (cursor >= this.#log.newest()) return null;
    const batch = group.last?.after === cursor ? group.last : this.#batch(group.matcher, cursor);
    group.last = group.readers > 1 ? batch : undefined;
    reader.cursor = batch.cursor;
    return batch.bytes;
  }

  #batch(wanted: Matcher, after: number): Batch {
    const chunks: Uint8Array[] = [];
    let cursor = after;
    let [found, looked] = [0, 0];
    const newest = this.#log.newest();
    for (const line of this.#log.after(after)) {
      if (line.index > newest) break;
      const bytes = line.bytesFor(wanted);
      if (bytes) {
        chunks.push(bytes);
        found += bytes.length;
      }
      looked += line.size;
      cursor = line.index;
      if (found >= CHUNK_BYTES || looked >= SCAN_SIZE) break;
    }
    const [first = null] = chunks;
    return { after, cursor, bytes: chunks.length > 1 ? Buffer.concat(chunks) : first };
  }

  #heartbeat(reader: Reader): Uint8Array {
    reader.beat = this.#beats;
    if (reader.heartbeat === "empty") return encodeLine({});
    // A reader that waits for a future index has passed nothing beyond the newest.
    return encodeLine({ Index: Math.min(reader.cursor, this.#log.newest()), Events: [] });
  }

  #cut(reader: Reader): Uint8Array | null {
    if (!reader.errors) {
      this.#leave(reader, "cut");
      return null;
    }
    reader.errors = false;
    return encodeLine({ Error: { Code: "slow_consumer", LastIndex: reader.cursor } });
  }

  /** One timer beats for all readers, and is also how a dead client is noticed: by writing to it. */
  #startBeating(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#beats += 1;
      this.wake();
      if (this.#count > 0) this.#startBeating();
    }, this.#beatMs());
  }
}
