import { settings } from "../env.ts";
import { type Append, numbered } from "../events/event.ts";
import { Line } from "../events/line.ts";
import { Readers } from "../events/readers.ts";
import { Ring } from "../events/ring.ts";
import type { Subscription } from "../events/subscription.ts";
import { warn } from "../log.ts";
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

type Last = { seq: number; idx: number };

const PAGE_LINES = 1_000;
/** Space is freed for this share of the limit at a time, so that not every append deletes a row. */
const TRIM_SHARE = 0.02;
/** A row holds 2 MB at most. */
const MAX_LINE_BYTES = 1_900_000;

/**
 * The one sequence of cluster events. One writer at a time (`append`, in order of arrival); any number of readers, each only
 * a cursor that pulls. The newest lines are in memory, the whole buffer is in storage.
 */
export class EventLog extends StoredObject {
  readonly #ring = new Ring();
  readonly #readers: Readers;
  /** The newest index given out; 0 before the first. */
  #newest: number;
  /** The newest index that no crash takes back, and the newest that readers get. */
  #durable: number;
  /** Lines up to this index have left the buffer. */
  #evicted: number;
  #lines: number;
  #bytes: number;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { events: schema }, {});
    // Not from the lines, which leave: an index is never given out twice.
    this.#newest = this.sql.exec<{ idx: number }>("SELECT ifnull(max(idx), 0) AS idx FROM sources").one().idx;
    this.#durable = this.#newest;
    const held = this.sql
      .exec<{ n: number; bytes: number; oldest: number | null }>(
        "SELECT count(*) AS n, ifnull(sum(bytes), 0) AS bytes, min(idx) AS oldest FROM lines",
      )
      .one();
    this.#lines = held.n;
    this.#bytes = held.bytes;
    this.#evicted = held.oldest === null ? this.#newest : held.oldest - 1;
    this.#readers = new Readers(
      {
        newest: () => this.#durable,
        evicted: () => this.#evicted,
        after: (cursor) => this.#ring.after(cursor) ?? this.#stored(cursor),
      },
      () => settings(this.env).EVENT_HEARTBEAT_MS,
    );
  }

  /**
   * Appends lines, one per entry, in order. Idempotent by (source, seq): a repeated entry adds nothing and gets its first
   * index again, or the newest index of its source once its line has left the buffer.
   * @returns the index of each entry
   */
  async append(source: string, entries: readonly Append[]): Promise<number[]> {
    const fresh: Line[] = [];
    const indexes = this.commit(() => {
      let last = this.#lastOf(source);
      const given = entries.map((entry) => {
        if (last && entry.seq <= last.seq) return this.#indexOf(source, entry.seq) ?? last.idx;
        const line = lineOf(this.#newest + fresh.length + 1, entry);
        this.#insert(source, entry.seq, line);
        fresh.push(line);
        last = { seq: entry.seq, idx: line.index };
        return line.index;
      });
      if (last && fresh.length > 0) this.#noteLast(source, last);
      return given;
    });
    for (const line of fresh) {
      this.#newest = line.index;
      this.#ring.push(line);
      this.#lines += 1;
      this.#bytes += line.size;
    }
    this.#trim();
    await this.#publish(this.#newest);
    return indexes;
  }

  /** The newest index given out; 1 before the first event, because an index is never 0 on the wire. */
  newest(): number {
    return Math.max(1, this.#newest);
  }

  /** What the buffer holds, and how many readers are open. `oldest` is 0 when it is empty. */
  state(): { lines: number; bytes: number; oldest: number; newest: number; readers: number } {
    return {
      lines: this.#lines,
      bytes: this.#bytes,
      oldest: this.#oldest(),
      newest: this.#newest,
      readers: this.#readers.count,
    };
  }

  /** Opens a stream; the body is the `Subscription` that the Worker has authorised. */
  override async fetch(request: Request): Promise<Response> {
    const subscription = await request.json<Subscription>();
    return new Response(this.#readers.open(subscription, request.signal), {
      headers: { "x-oldest-index": String(this.#oldest()) },
    });
  }

  protected override ownDeadline(): null {
    return null;
  }

  protected override async onAlarm(): Promise<void> {}

  /**
   * Shows lines to readers once they are on disk. An answer waits for that by itself, a stream that is already open does not:
   * a reader would see a line, a crash would take it back, and the next line would get its index.
   */
  async #publish(index: number): Promise<void> {
    if (index <= this.#durable) return;
    await this.ctx.storage.sync();
    this.#durable = Math.max(this.#durable, index);
    this.#readers.wake();
  }

  #oldest(): number {
    return this.#lines === 0 ? 0 : this.#evicted + 1;
  }

  /** The newest entry of a source, known even when its line has left the buffer. */
  #lastOf(source: string): Last | undefined {
    return this.sql.exec<Last>("SELECT seq, idx FROM sources WHERE source = ?", source).toArray()[0];
  }

  #indexOf(source: string, seq: number): number | undefined {
    return this.sql
      .exec<{ idx: number }>("SELECT idx FROM lines WHERE source = ? AND seq = ?", source, seq)
      .toArray()[0]?.idx;
  }

  #insert(source: string, seq: number, { index, size, text }: Line): void {
    this.sql.exec(
      "INSERT INTO lines (idx, source, seq, bytes, events) VALUES (?, ?, ?, ?, ?)",
      index,
      source,
      seq,
      size,
      text,
    );
  }

  #noteLast(source: string, { seq, idx }: Last): void {
    this.sql.exec(
      `INSERT INTO sources (source, seq, idx) VALUES (?, ?, ?)
       ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, idx = excluded.idx`,
      source,
      seq,
      idx,
    );
  }

  /** Drops the oldest lines beyond the configured bounds. The newest stays: who reads live has a right to it. */
  #trim(): void {
    const { EVENT_BUFFER_LINES: maxLines, EVENT_BUFFER_BYTES: maxBytes } = settings(this.env);
    if (this.#lines <= maxLines && this.#bytes <= maxBytes) return;
    const keepLines = Math.floor(maxLines * (1 - TRIM_SHARE));
    const keepBytes = Math.floor(maxBytes * (1 - TRIM_SHARE));
    let { lines, bytes } = { lines: this.#lines, bytes: this.#bytes };
    let last = this.#evicted;
    for (const line of this.sql.exec<{ idx: number; bytes: number }>("SELECT idx, bytes FROM lines ORDER BY idx")) {
      if ((lines <= keepLines && bytes <= keepBytes) || lines === 1) break;
      lines -= 1;
      bytes -= line.bytes;
      last = line.idx;
    }
    this.commit(() => this.sql.exec("DELETE FROM lines WHERE idx <= ?", last));
    this.#lines = lines;
    this.#bytes = bytes;
    this.#evicted = last;
  }

  *#stored(cursor: number): Iterable<Line> {
    const rows = this.sql.exec<{ idx: number; events: string; bytes: number }>(
      "SELECT idx, events, bytes FROM lines WHERE idx > ? ORDER BY idx LIMIT ?",
      cursor,
      PAGE_LINES,
    );
    for (const row of rows) yield Line.stored(row);
  }
}

function lineOf(index: number, { events }: Append): Line {
  const line = Line.of(index, numbered(events, index));
  if (line.size <= MAX_LINE_BYTES) return line;
  // No row can hold it, and a line that cannot be taken would keep all later ones waiting: what changed is still told.
  warn("event-payload-dropped", { index, bytes: line.size });
  return Line.of(
    index,
    numbered(
      events.map((event) => ({ ...event, Payload: {} })),
      index,
    ),
  );
}
