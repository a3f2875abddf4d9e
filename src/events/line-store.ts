import type { Append } from "../contracts/event.ts";
import type { AccountGap } from "../contracts/event-log.ts";
import { firstWhere } from "../lib/first-where.ts";
import type { Migration } from "../platform/durable/migrations.ts";
import { warn } from "../platform/observability/log.ts";
import { headersText } from "../publishing/event-headers.ts";
import { numbered } from "../publishing/numbered-events.ts";
import type { Slice } from "./group.ts";
import { Line } from "./line.ts";
import { type Amount, accountOf, mostBytesOf, Shares, withoutPayloads } from "./shares.ts";

export const lineMigrations: Migration[] = [
  // The buffered lines; `source` and `seq` let a repeated append find its first index.
  `CREATE TABLE lines (
      idx INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, seq INTEGER NOT NULL, bytes INTEGER NOT NULL,
      events TEXT NOT NULL) STRICT`,
  // Recognize a repeated append.
  "CREATE UNIQUE INDEX lines_by_source ON lines (source, seq)",
  // A repeated append is recognized after its line has left the buffer.
  "CREATE TABLE sources (source TEXT PRIMARY KEY, seq INTEGER NOT NULL, idx INTEGER NOT NULL) STRICT",
  // `facts` of a line, which filters read, stand before `events`, so that these need not be read (NULL: not
  // computed). `upto`, the bytes of all lines so far, gives the bytes between any two lines without a scan.
  `CREATE TABLE buffered (
        idx INTEGER PRIMARY KEY, source TEXT NOT NULL, seq INTEGER NOT NULL, upto INTEGER NOT NULL, facts TEXT,
        events TEXT NOT NULL) STRICT;
      INSERT INTO buffered SELECT idx, source, seq, sum(bytes) OVER (ORDER BY idx), NULL, events FROM lines;
      DROP TABLE lines;
      ALTER TABLE buffered RENAME TO lines;
      CREATE UNIQUE INDEX lines_by_source ON lines (source, seq)`,
  // When a line was appended, in ms, for the metric of the buffer's reach; NULL = unknown.
  "ALTER TABLE lines ADD COLUMN at INTEGER",
  // Each source has a share of the buffer: `account` = the share that a line counts against, NULL = none.
  // `fat` = 0 once the payloads are removed, `thinned` = the bytes removed; `books` = bytes and lines removed
  // between the oldest and the newest line.
  `ALTER TABLE lines ADD COLUMN account TEXT;
      ALTER TABLE lines ADD COLUMN fat INTEGER NOT NULL DEFAULT 1;
      ALTER TABLE lines ADD COLUMN thinned INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX lines_by_account ON lines (account, fat, idx) WHERE account IS NOT NULL;
      CREATE TABLE accounts (account TEXT PRIMARY KEY, bytes INTEGER NOT NULL, lines INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE books (id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL, lines INTEGER NOT NULL) STRICT`,
  // The newest line of each account that was evicted for its share: a reader before it has missed lines. Of earlier
  // evictions only their number is known; accounts lose their oldest lines first.
  `CREATE TABLE account_gaps (account TEXT PRIMARY KEY, upto INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO account_gaps SELECT account, min(idx) - 1 FROM lines
        WHERE (account = 'service' OR account LIKE 'namespace %') AND idx > (SELECT min(idx) FROM lines)
          AND EXISTS (SELECT 1 FROM books WHERE lines > 0)
        GROUP BY account`,
];

type Last = { seq: number; idx: number };
type Row = [
  ...[idx: number, source: string, seq: number, upto: number, facts: string | null, events: string, at: number],
  account: string | null,
];

const PAGE_LINES = 1_000;
/** A statement binds at most 100 values, and a row has eight. */
const MAX_ROWS_PER_INSERT = 12;
/** Bounds of one read: lines, and bytes beyond the first line. */
const READ_LINES = 32;
const READ_BYTES = 256 * 1024;
const WALK_LINES = 200;
/** Lines scanned in storage per read of a filter with few matches. */
const SCAN_LINES = 5_000;
/** Share of the limit that one trim frees, so that not every append deletes a row. */
const TRIM_SHARE = 0.02;
/** A row holds 2 MB at most, including headers. */
const MAX_LINE_BYTES = 1_700_000;
const MAX_HEADERS = 60_000;
const MAX_SOURCES = 1_000;

/**
 * The buffered lines in storage, oldest to newest. Lines of an account over its share may be missing in between, as
 * `gaps` shows. The newest line is never evicted: it determines the next index. Every query is an index seek. Writes belong in a
 * transaction; after a rollback, call `reload`.
 */
export class LineStore {
  /** The newest entries of recently active sources. */
  readonly #sources = new Map<string, Last>();
  #oldest = 0;
  #newest = 0;
  /** Bytes of all lines up to the newest since the beginning, and of evicted ones. */
  #upTo = 0;
  #left = 0;
  /** Bytes and lines evicted between the oldest and the newest line. */
  #evicted: Amount = { bytes: 0, lines: 0 };
  readonly #shares: Shares;

  constructor(private readonly sql: SqlStorage) {
    this.#shares = new Shares(sql);
    this.reload();
  }

  /** The newest assigned index; 0 before the first. */
  get newest(): number {
    return this.#newest;
  }

  /** The oldest index in the buffer; 0 when empty. */
  get oldest(): number {
    return this.#oldest;
  }

  get lines(): number {
    return this.#newest === 0 ? 0 : this.#newest - this.#oldest + 1 - this.#evicted.lines;
  }

  get bytes(): number {
    return this.#upTo - this.#left - this.#evicted.bytes;
  }

  /** Accounts that have lost lines to their share which are newer than the oldest one here. */
  get gaps(): readonly AccountGap[] {
    return this.#shares.gaps;
  }

  /** Append time of the oldest line, ms since 1970; null when unknown or empty. */
  oldestAt(): number | null {
    return this.#first<{ at: number | null }>("SELECT at FROM lines WHERE idx = ?", this.#oldest)?.at ?? null;
  }

  /** Discards values cached from rows. */
  reload(): void {
    this.#sources.clear();
    const newest = this.#endLine("DESC");
    const oldest = this.#endLine("ASC");
    this.#newest = newest?.idx ?? 0;
    this.#oldest = oldest?.idx ?? 0;
    this.#upTo = newest?.upto ?? 0;
    this.#left = oldest?.before ?? 0;
    const gone = this.#first<{ bytes: number; lines: number }>("SELECT bytes, lines FROM books");
    this.#evicted = gone ?? { bytes: 0, lines: 0 };
    this.#shares.reload();
  }

  /** Appends one line per new entry. @returns the index of each entry, and the new lines */
  append(source: string, entries: readonly Append[]): { indexes: number[]; lines: Line[] } {
    const lines: Line[] = [];
    const rows: Row[] = [];
    let last = this.#lastOf(source);
    const indexes = entries.map((entry) => {
      if (last && entry.seq <= last.seq) {
        this.#write(rows.splice(0));
        return this.#indexOf(source, entry.seq) ?? last.idx;
      }
      const line = this.#number(source, entry, rows);
      lines.push(line);
      last = { seq: entry.seq, idx: line.index };
      return line.index;
    });
    this.#write(rows);
    if (last) this.#remember(source, last);
    return { indexes, lines };
  }

  /** The lines after a cursor, as seen by readers. */
  after(cursor: number, traces: readonly string[] | null): Slice {
    if (traces === null) return this.#page(cursor);
    const upTo = Math.min(cursor + SCAN_LINES, this.#newest);
    return { lines: this.#candidates(cursor, upTo, traces), upTo };
  }

  /** Evicts lines beyond the bounds: first lines over a share, then the oldest. The newest stays for live readers. */
  trim(maxLines: number, maxBytes: number): void {
    if (this.lines <= maxLines && this.bytes <= maxBytes) return;
    this.#shrinkAccounts(maxLines, maxBytes);
    if (this.lines > maxLines || this.bytes > maxBytes) this.#evictOldest(maxLines, maxBytes);
    this.#shares.forgetGapsBefore(this.#oldest);
  }

  #shrinkAccounts(maxLines: number, maxBytes: number): void {
    const [lines, bytes] = [this.lines, this.bytes];
    const shrunk = this.#shares.shrink(maxLines, maxBytes, this.#newest);
    if (shrunk.lines === 0 && shrunk.bytes === 0) return;
    const oldest = this.#endLine("ASC");
    this.#oldest = oldest?.idx ?? this.#newest;
    this.#left = oldest?.before ?? this.#left;
    this.#recordEvicted({
      bytes: this.#upTo - this.#left - (bytes - shrunk.bytes),
      lines: this.#newest - this.#oldest + 1 - (lines - shrunk.lines),
    });
  }

  #evictOldest(maxLines: number, maxBytes: number): void {
    const [keepLines, keepBytes] = [maxLines, maxBytes].map((most) => Math.floor(most * (1 - TRIM_SHARE)));
    const first = this.#firstToStay(keepLines ?? 0, keepBytes ?? 0);
    if (first <= this.#oldest) return;
    this.#shares.evictBefore(first);
    this.#advanceOldest(first);
    // Not by the index of sources, because grouping would read it whole.
    this.sql.exec(
      `INSERT INTO sources (source, seq, idx)
       SELECT source, max(seq), max(idx) FROM lines NOT INDEXED WHERE idx < ? GROUP BY source
       ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, idx = excluded.idx`,
      first,
    );
    this.sql.exec("DELETE FROM lines WHERE idx < ?", first);
    this.#oldest = first;
  }

  /** The oldest line to retain; at most the newest. */
  #firstToStay(keepLines: number, keepBytes: number): number {
    if (this.#evicted.bytes > 0 || this.#evicted.lines > 0) return this.#walkToStay(keepLines, keepBytes);
    const byLines = this.#newest - keepLines + 1;
    return Math.min(this.#newest, Math.max(byLines, this.#firstWithin(keepBytes)));
  }

  /** Like `#firstToStay`, but sums the evicted lines: their indexes and sums have gaps. */
  #walkToStay(keepLines: number, keepBytes: number): number {
    let [lines, bytes] = [this.lines, this.bytes];
    for (let at = this.#oldest; ; ) {
      const page = this.sql
        .exec<{ idx: number; bytes: number }>(
          "SELECT idx, octet_length(events) AS bytes FROM lines WHERE idx >= ? ORDER BY idx LIMIT ?",
          at,
          WALK_LINES,
        )
        .toArray();
      for (const row of page) {
        if ((lines <= keepLines && bytes <= keepBytes) || row.idx >= this.#newest) return row.idx;
        lines -= 1;
        bytes -= row.bytes;
      }
      at = (page.at(-1)?.idx ?? this.#newest) + 1;
    }
  }

  /** Advances the sums to the line that becomes the oldest. */
  #advanceOldest(first: number): void {
    const line = this.#endLine("ASC", first);
    const left = line?.before ?? this.#left;
    if (this.#evicted.bytes > 0 || this.#evicted.lines > 0) {
      const { bytes, lines } = this.sql
        .exec<{ bytes: number; lines: number }>(
          "SELECT ifnull(sum(octet_length(events)), 0) AS bytes, count(*) AS lines FROM lines WHERE idx < ?",
          first,
        )
        .one();
      this.#recordEvicted({
        bytes: this.#evicted.bytes - (left - this.#left - bytes),
        lines: this.#evicted.lines - (first - this.#oldest - lines),
      });
    }
    this.#left = left;
  }

  #recordEvicted(gone: Amount): void {
    if (gone.bytes === this.#evicted.bytes && gone.lines === this.#evicted.lines) return;
    this.#evicted = gone;
    this.sql.exec(
      "INSERT INTO books VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes, lines = excluded.lines",
      gone.bytes,
      gone.lines,
    );
  }

  /** Numbers an entry as the newest line and adds its row to `rows`. */
  #number(source: string, entry: Append, rows: Row[]): Line {
    const line = lineOf(this.#newest + 1, entry);
    const headers = headersText(line.headers);
    const upTo = this.#upTo + Buffer.byteLength(line.text);
    const storedHeaders = headers.length > MAX_HEADERS ? null : headers;
    rows.push([line.index, source, entry.seq, upTo, storedHeaders, line.text, Date.now(), accountOf(entry)]);
    this.#newest = line.index;
    this.#upTo = upTo;
    if (this.#oldest === 0) this.#oldest = line.index;
    return line;
  }

  #write(rows: readonly Row[]): void {
    for (let at = 0; at < rows.length; at += MAX_ROWS_PER_INSERT) {
      const some = rows.slice(at, at + MAX_ROWS_PER_INSERT);
      const values = some.map(() => "(?, ?, ?, ?, ?, ?, ?, ?)").join(", ");
      const columns = "idx, source, seq, upto, facts, events, at, account";
      this.sql.exec(`INSERT INTO lines (${columns}) VALUES ${values}`, ...some.flat());
    }
    this.#shares.add(rows.map(([, , , , , events, , account]) => ({ account, events })));
  }

  #remember(source: string, last: Last): void {
    if (this.#sources.size >= MAX_SOURCES) this.#sources.clear();
    this.#sources.set(source, last);
  }

  /** The newest entry of a source, known even after its line was evicted. */
  #lastOf(source: string): Last | undefined {
    return (
      this.#sources.get(source) ??
      this.#first<Last>("SELECT seq, idx FROM lines WHERE source = ? ORDER BY seq DESC LIMIT 1", source) ??
      this.#first<Last>("SELECT seq, idx FROM sources WHERE source = ?", source)
    );
  }

  #indexOf(source: string, seq: number): number | undefined {
    return this.#first<{ idx: number }>("SELECT idx FROM lines WHERE source = ? AND seq = ?", source, seq)?.idx;
  }

  #page(cursor: number): Slice {
    const from = Math.max(cursor, this.#oldest - 1);
    const upTo = Math.min(from + PAGE_LINES, this.#newest);
    return { lines: this.#between(from, upTo), upTo };
  }

  /*
   * Readers seldom use all lines of a page, so lines are read lazily; but in chunks and to the end, since an unfinished
   * cursor would lock the table until it is garbage-collected.
   */

  /** The lines after one index up to another. */
  *#between(from: number, upTo: number): Generator<Line> {
    for (let [at, bytes] = [from, from < this.#oldest ? this.#left : this.#upToOf(from)]; at < upTo; ) {
      const first = this.#after(at);
      const rows = this.sql
        .exec<LineRow & { upto: number }>(
          `SELECT idx, facts, events, upto FROM lines WHERE idx >= ?1 AND idx <= ?2 AND (upto <= ?3 OR idx = ?1)
           ORDER BY idx`,
          first,
          Math.min(upTo, first + READ_LINES - 1),
          bytes + READ_BYTES,
        )
        .toArray();
      yield* rows.map(lineIn);
      const last = rows.at(-1);
      if (!last) return;
      [at, bytes] = [last.idx, last.upto];
    }
  }

  /** The index of the next line. */
  #after(index: number): number {
    if (this.#evicted.lines === 0) return index + 1;
    const next = this.sql.exec<{ idx: number | null }>("SELECT min(idx) AS idx FROM lines WHERE idx > ?", index);
    return next.one().idx ?? this.#newest + 1;
  }

  /** Like `#between`: candidate lines, found by headers without reading the events of others. */
  *#candidates(from: number, upTo: number, traces: readonly string[]): Generator<Line> {
    for (let at = from; at < upTo; ) {
      const wanted = this.sql
        .exec<{ idx: number; bytes: number }>(
          `SELECT idx, octet_length(events) AS bytes FROM lines WHERE idx > ? AND idx <= ?
           AND (facts IS NULL${" OR instr(facts, ?)".repeat(traces.length)}) ORDER BY idx LIMIT ?`,
          at,
          upTo,
          ...traces,
          READ_LINES,
        )
        .toArray();
      yield* this.#these(wanted);
      at = wanted.length < READ_LINES ? upTo : (wanted.at(-1)?.idx ?? upTo);
    }
  }

  *#these(wanted: readonly { readonly idx: number; readonly bytes: number }[]): Generator<Line> {
    for (let at = 0; at < wanted.length; ) {
      const some: number[] = [];
      for (let bytes = 0; bytes < READ_BYTES; at++) {
        const line = wanted[at];
        if (!line) break;
        some.push(line.idx);
        bytes += line.bytes;
      }
      yield* this.#rows(some).map(lineIn);
    }
  }

  /** Most filters of a topic match runs of lines, which need no list. */
  #rows(indexes: readonly number[]): LineRow[] {
    const [first = 0, last = 0] = [indexes[0], indexes.at(-1)];
    const [where, ...values] =
      last - first < indexes.length
        ? ["idx BETWEEN ? AND ?", first, last]
        : ["idx IN (SELECT value FROM json_each(?))", JSON.stringify(indexes)];
    return this.sql
      .exec<LineRow>(`SELECT idx, facts, events FROM lines WHERE ${where} ORDER BY idx`, ...values)
      .toArray();
  }

  /** The first of the newest lines that together have at most this many bytes. */
  #firstWithin(bytes: number): number {
    // Everything after it fits; the search ends at the newest when nothing does.
    return 1 + firstWhere(this.#oldest, this.#newest, (at) => this.#upTo - this.#upToOf(at) <= bytes);
  }

  /** Bytes of all lines up to this one since the beginning. */
  #upToOf(index: number): number {
    const statement = "SELECT upto FROM lines WHERE idx <= ? ORDER BY idx DESC LIMIT 1";
    return this.#first<{ upto: number }>(statement, index)?.upto ?? this.#left;
  }

  /** The oldest line from an index on, or the newest; `before` = bytes of all lines appended before it. */
  #endLine(order: "ASC" | "DESC", from = 0) {
    return this.#first<{ idx: number; upto: number; before: number }>(
      `SELECT idx, upto, upto - octet_length(events) - thinned AS before FROM lines
       WHERE idx >= ? ORDER BY idx ${order} LIMIT 1`,
      from,
    );
  }

  #first<T extends Record<string, SqlStorageValue>>(statement: string, ...values: SqlStorageValue[]): T | undefined {
    return this.sql.exec<T>(statement, ...values).toArray()[0];
  }
}

interface LineRow extends Record<string, SqlStorageValue> {
  idx: number;
  facts: string | null;
  events: string;
}

const lineIn = ({ idx, events, facts }: LineRow): Line => Line.stored(idx, events, facts);

function lineOf(index: number, entry: Append): Line {
  const events = numbered(entry.events, index);
  const line = Line.of(index, events);
  const bytes = Buffer.byteLength(line.text);
  if (bytes <= Math.min(MAX_LINE_BYTES, mostBytesOf(accountOf(entry)))) return line;
  // An oversized line would block all later ones, so it is stored without payloads.
  warn("event-payload-dropped", { index, bytes });
  return withoutPayloads(index, events);
}
