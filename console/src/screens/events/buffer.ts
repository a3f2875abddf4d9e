/**
 * The events that the page keeps: the newest ones up to a number and a size, so that memory stays bounded however long
 * a stream runs. One writer (the stream), one reader (the list). A search tests each event once when it arrives, and
 * all when it changes.
 */
import { type EventBody, happenedAt, nameOf, summaryOf } from "./topics.ts";

export interface EventRow {
  readonly kind: "event";
  readonly id: number;
  readonly index: number;
  readonly topic: string;
  readonly type: string;
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly summary: string;
  /** When it happened; null where its object says no time. */
  readonly happened: number | null;
  /** When an event before it happened, for one without a time of its own. */
  readonly since: number | null;
  /** When the page got it. */
  readonly received: number;
  /** The line as it came, which of its events this is, and how many it has. */
  readonly line: string;
  readonly at: number;
  readonly of: number;
  /** The text that a search looks at: the line, or this event's part of it. */
  readonly text: string;
}

/** A notice about the connection, between the events. */
interface MarkRow {
  readonly kind: "mark";
  readonly id: number;
  readonly tone: "info" | "warn" | "bad";
  readonly text: string;
  readonly received: number;
}

export type Row = EventRow | MarkRow;

export const MAX_EVENTS = 10_000;
/** Characters of lines; the newest line stays in any case. */
const MAX_CHARACTERS = 32 * 1024 * 1024;
/** Rows are cut off in lots, so that an arrival costs the same at any fill. */
const LOT = 512;

export class EventBuffer {
  /** Oldest first; `#start` rows at the front have left. */
  #rows: Row[] = [];
  #found: Row[] | null = null;
  #start = 0;
  #foundStart = 0;
  #characters = 0;
  #last = 0;
  /** Time of the newest event that has one. */
  #newest: number | null = null;
  #pattern: RegExp | null = null;
  /** Events that have left the buffer. */
  dropped = 0;
  /** Events received in all. */
  received = 0;

  get size(): number {
    return this.#rows.length - this.#start;
  }

  /** Number of rows that match the search. */
  get matches(): number {
    return this.#found ? this.#found.length - this.#foundStart : this.size;
  }

  addLine(index: number, events: readonly EventBody[], line: string, received: number): void {
    for (const [at, event] of events.entries()) {
      this.received++;
      const happened = happenedAt(event);
      if (happened !== null) this.#newest = Math.max(this.#newest ?? 0, happened);
      this.#push({
        kind: "event",
        id: ++this.#last,
        index,
        topic: event.Topic,
        type: event.Type,
        key: event.Key,
        namespace: event.Namespace,
        name: nameOf(event),
        summary: summaryOf(event),
        happened,
        since: this.#newest,
        received,
        line,
        at,
        of: events.length,
        text: events.length === 1 ? line : JSON.stringify(event),
      });
    }
    this.#trim();
  }

  addMark(tone: MarkRow["tone"], text: string, received: number): void {
    this.#push({ kind: "mark", id: ++this.#last, tone, text, received });
  }

  clear(): void {
    this.#rows = [];
    this.#start = 0;
    this.#characters = 0;
    this.#newest = null;
    this.dropped = 0;
    this.received = 0;
    this.search(this.#pattern?.source ?? "", true);
  }

  /** Shows only events that have this text, in any case. */
  search(text: string, isPattern = false): void {
    this.#foundStart = 0;
    this.#pattern =
      text === "" ? null : new RegExp(isPattern ? text : text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
    this.#found = this.#pattern && this.#rows.slice(this.#start).filter((row) => this.#isFound(row));
  }

  /** The matching rows, newest first. A copy: it stays as it is while more arrive. */
  newestFirst(): Row[] {
    const [rows, start] = this.#found ? [this.#found, this.#foundStart] : [this.#rows, this.#start];
    return rows.slice(start).reverse();
  }

  #push(row: Row): void {
    this.#rows.push(row);
    this.#characters += charactersOf(row);
    if (this.#found && this.#isFound(row)) this.#found.push(row);
  }

  #isFound(row: Row): boolean {
    return row.kind === "mark" || (this.#pattern?.test(row.text) ?? true);
  }

  #trim(): void {
    while (this.size > 1 && (this.size > MAX_EVENTS || this.#characters > MAX_CHARACTERS)) {
      const row = this.#rows[this.#start++];
      if (row?.kind !== "event") continue;
      this.dropped++;
      this.#characters -= charactersOf(row);
    }
    const oldest = this.#rows[this.#start]?.id ?? 0;
    if (this.#found) {
      while ((this.#found[this.#foundStart]?.id ?? oldest) < oldest) this.#foundStart++;
      if (this.#foundStart > LOT) {
        this.#found.splice(0, this.#foundStart);
        this.#foundStart = 0;
      }
    }
    if (this.#start > LOT) {
      this.#rows.splice(0, this.#start);
      this.#start = 0;
    }
  }
}

/** A line is counted with its first event, and parts of lines with their own. */
const charactersOf = (row: Row): number =>
  row.kind === "mark" ? 0 : (row.at === 0 ? row.line.length : 0) + (row.of > 1 ? row.text.length : 0);
