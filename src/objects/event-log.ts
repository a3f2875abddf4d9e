import { settings } from "../env.ts";
import { type Append, numbered, type StreamEvent } from "../events/event.ts";
import { encodeFor, groupOf, Ring } from "../events/ring.ts";
import type { Subscription } from "../events/subscription.ts";
import type { Migration } from "./migrations.ts";
import { StoredObject } from "./stored-object.ts";

const schema: Migration[] = [
  {
    because: "the buffered lines; source and seq make a repeated append find its first index",
    sql: `CREATE TABLE lines (
      idx INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, seq INTEGER NOT NULL, bytes INTEGER NOT NULL,
      events TEXT NOT NULL) STRICT`,
  },
  { because: "recognise a repeated append", sql: "CREATE UNIQUE INDEX lines_by_source ON lines (source, seq)" },
  {
    because: "a repeat is recognised after its line has left the buffer, too",
    sql: "CREATE TABLE sources (source TEXT PRIMARY KEY, seq INTEGER NOT NULL, idx INTEGER NOT NULL) STRICT",
  },
];

const CHUNK_BYTES = 64 * 1024;
const PAGE_LINES = 256;
/** Space is freed for this share of the limit at a time, so that not every append deletes a row. */
const TRIM_SHARE = 0.02;

/**
 * The one sequence of cluster events. One writer at a time (`append`, in order of arrival); any number of readers, each only
 * a cursor that pulls. A reader that stalls costs nothing but its cursor.
 */
export class EventLog extends StoredObject {
  readonly #ring = new Ring();
  /** The newest index given out, once read from storage. */
  #newest: number | undefined;
  #lines: number;
  #bytes: number;
  #readers = 0;
  #news = Promise.withResolvers<void>();
  #beat: ReturnType<typeof setTimeout> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { events: schema }, {});
    const total = this.sql
      .exec<{ n: number; bytes: number }>("SELECT count(*) AS n, ifnull(sum(bytes), 0) AS bytes FROM lines")
      .one();
    this.#lines = total.n;
    this.#bytes = total.bytes;
  }

  /**
   * Appends lines, one per entry, in order. Idempotent by (source, seq): a repeated entry gets its first index again.
   * @returns the index of each entry
   */
  append(source: string, entries: readonly Append[]): number[] {
    const fresh: { index: number; events: StreamEvent[]; bytes: number }[] = [];
    const indexes = this.commit(() => entries.map((entry) => this.#appendOne(source, entry, fresh)));
    for (const line of fresh) {
      this.#newest = line.index;
      this.#ring.push(line.index, line.events, line.bytes);
      this.#lines += 1;
      this.#bytes += line.bytes;
    }
    this.#trim();
    if (fresh.length > 0) this.#wake();
    return indexes;
  }

  /** The newest index given out; 1 before the first event, because an index is never 0 on the wire. */
  newest(): number {
    return Math.max(1, this.#newestLine());
  }

  /** How many lines the buffer holds, and how many readers are open. */
  state(): { lines: number; bytes: number; oldest: number; newest: number; readers: number } {
    return {
      lines: this.#lines,
      bytes: this.#bytes,
      oldest: this.#oldestLine(),
      newest: this.#newestLine(),
      readers: this.#readers,
    };
  }

  /** Opens a stream; the header `x-subscription` holds the `Subscription` that the Worker has authorised. */
  override async fetch(request: Request): Promise<Response> {
    const subscription = JSON.parse(request.headers.get("x-subscription") ?? "") as Subscription;
    return new Response(this.#stream(subscription, request.signal), {
      headers: { "x-oldest-index": String(this.#oldestLine()) },
    });
  }

  protected override ownDeadline(): null {
    return null;
  }

  protected override async onAlarm(): Promise<void> {}

  #appendOne(source: string, entry: Append, fresh: { index: number; events: StreamEvent[]; bytes: number }[]): number {
    const [known] = this.sql
      .exec<{ seq: number; idx: number }>("SELECT seq, idx FROM sources WHERE source = ?", source)
      .toArray();
    if (known && entry.seq <= known.seq) {
      const [line] = this.sql
        .exec<{ idx: number }>("SELECT idx FROM lines WHERE source = ? AND seq = ?", source, entry.seq)
        .toArray();
      return line?.idx ?? known.idx;
    }
    const index = this.#newestLine() + fresh.length + 1;
    const events = numbered(entry.events, index);
    const text = JSON.stringify(events);
    this.sql.exec(
      "INSERT INTO lines (idx, source, seq, bytes, events) VALUES (?, ?, ?, ?, ?)",
      index,
      source,
      entry.seq,
      text.length,
      text,
    );
    this.sql.exec(
      `INSERT INTO sources (source, seq, idx) VALUES (?, ?, ?)
       ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, idx = excluded.idx`,
      source,
      entry.seq,
      index,
    );
    fresh.push({ index, events, bytes: text.length });
    return index;
  }

  /** Drops the oldest lines beyond the configured bounds; indexes are never given out again. */
  #trim(): void {
    const { EVENT_BUFFER_LINES: maxLines, EVENT_BUFFER_BYTES: maxBytes } = settings(this.env);
    if (this.#lines <= maxLines && this.#bytes <= maxBytes) return;
    const keepLines = Math.floor(maxLines * (1 - TRIM_SHARE));
    const keepBytes = Math.floor(maxBytes * (1 - TRIM_SHARE));
    const oldest = this.sql.exec<{ idx: number; bytes: number }>("SELECT idx, bytes FROM lines ORDER BY idx");
    let { lines, bytes } = { lines: this.#lines, bytes: this.#bytes };
    let last = 0;
    for (const line of oldest) {
      // The newest line always stays: it carries the sequence across a restart.
      if ((lines <= keepLines && bytes <= keepBytes) || lines === 1) break;
      lines -= 1;
      bytes -= line.bytes;
      last = line.idx;
    }
    this.commit(() => this.sql.exec("DELETE FROM lines WHERE idx <= ?", last));
    this.#lines = lines;
    this.#bytes = bytes;
  }

  #stream(subscription: Subscription, signal: AbortSignal): ReadableStream<Uint8Array> {
    const group = groupOf(subscription);
    let cursor = subscription.from < 0 ? this.#newestLine() : subscription.from - 1;
    let open = true;
    let greeted = false;
    this.#readers += 1;
    this.#startBeating();
    const close = () => {
      if (!open) return;
      open = false;
      this.#readers -= 1;
    };
    signal.addEventListener("abort", close);
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          if (!greeted && subscription.heartbeat === "empty") {
            greeted = true;
            return controller.enqueue(this.#heartbeat(subscription, cursor));
          }
          for (;;) {
            if (!open) return controller.close();
            const read = this.#read(cursor, group, subscription);
            cursor = read.cursor;
            if (read.chunks.length > 0) {
              greeted = true;
              for (const chunk of read.chunks) controller.enqueue(chunk);
              return;
            }
            if (cursor < this.#newestLine()) {
              // A long backlog without a line for this reader must not keep the others waiting.
              await scheduler.wait(0);
              continue;
            }
            // The answer's head leaves with the first bytes, so a reader with no backlog is greeted at once.
            const news = greeted && (await this.#newsOrBeat());
            if (!open) return controller.close();
            if (!news) {
              greeted = true;
              return controller.enqueue(this.#heartbeat(subscription, cursor));
            }
          }
        },
        cancel: close,
      },
      { highWaterMark: 0 },
    );
  }

  #read(cursor: number, group: string, subscription: Subscription): { chunks: Uint8Array[]; cursor: number } {
    if (cursor >= this.#newestLine()) return { chunks: [], cursor };
    if (this.#ring.covers(cursor)) return this.#ring.after(cursor, group, subscription, CHUNK_BYTES);
    const chunks: Uint8Array[] = [];
    let at = cursor;
    let size = 0;
    const rows = this.sql.exec<{ idx: number; events: string }>(
      "SELECT idx, events FROM lines WHERE idx > ? ORDER BY idx LIMIT ?",
      cursor,
      PAGE_LINES,
    );
    for (const row of rows) {
      const bytes = encodeFor(subscription, row.idx, JSON.parse(row.events) as StreamEvent[]);
      if (bytes) {
        chunks.push(bytes);
        size += bytes.length;
      }
      at = row.idx;
      if (size >= CHUNK_BYTES) break;
    }
    return { chunks, cursor: at };
  }

  #heartbeat(subscription: Subscription, cursor: number): Uint8Array {
    const line = subscription.heartbeat === "empty" ? {} : { Index: Math.max(0, cursor), Events: [] };
    return new TextEncoder().encode(`${JSON.stringify(line)}\n`);
  }

  /** Resolves true when a line was appended, false when it is time for a heartbeat. */
  async #newsOrBeat(): Promise<boolean> {
    const before = this.#newestLine();
    await this.#news.promise;
    return this.#newestLine() > before;
  }

  #wake(): void {
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers<void>();
    resolve();
  }

  /** One timer serves the heartbeats of all readers, and is also how a dead client is noticed: by writing to it. */
  #startBeating(): void {
    if (this.#beat !== undefined) return;
    this.#beat = setTimeout(() => {
      this.#beat = undefined;
      this.#wake();
      if (this.#readers > 0) this.#startBeating();
    }, settings(this.env).EVENT_HEARTBEAT_MS);
  }

  #newestLine(): number {
    this.#newest ??= this.sql.exec<{ idx: number | null }>("SELECT max(idx) AS idx FROM sources").one().idx ?? 0;
    return this.#newest;
  }

  #oldestLine(): number {
    return this.sql.exec<{ idx: number | null }>("SELECT min(idx) AS idx FROM lines").one().idx ?? 0;
  }
}
