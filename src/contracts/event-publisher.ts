import type { OutboxRow } from "../platform/durable/outbox.ts";
import type { Append, NewEvent } from "./event.ts";

/**
 * An event, by position, and a cut of its text where the index of an earlier line belongs that has none yet: that of the line
 * which created the event's object, say.
 */
export type Origin = readonly [event: number, cut: number, line: number];

interface Entry<Stamp> {
  readonly events: readonly NewEvent[];
  readonly stamps: readonly Stamp[];
  readonly origins?: readonly Origin[];
}

/** What the journal needs of the object it belongs to. */
export interface JournalHost<Stamp> {
  commit<T>(change: () => T): T;
  /** @returns the promise's number, which grows */
  enlist(entry: Entry<Stamp> | ((line: number) => Entry<Stamp>)): number;
  drain(): Promise<void>;
  append(entries: Append[]): Promise<number[]>;
  /** Writes an index to the row that was promised it. Runs in the transaction that forgets the promise. */
  stamp(stamp: Stamp, index: number): void;
  /** Rows have got their indexes; runs in the same transaction. */
  stamped?(): void;
}

const EVENTS_PER_LINE = 100;

/**
 * How a change of an object becomes durable and reaches the event stream: `commit` with `emit` inside makes both certain at
 * once, `published` then gives the stream the chance to have it before the caller is answered.
 */
export class Journal<Stamp> {
  readonly #host: JournalHost<Stamp>;
  /** Promises whose index somebody waits for. */
  readonly #awaited = new Map<number, number | null>();

  constructor(host: JournalHost<Stamp>) {
    this.#host = host;
  }

  /** Runs a change as one transaction. */
  commit<T>(change: () => T): T {
    return this.#host.commit(change);
  }

  /** Promises events, lines by account, and indexes to the rows that they are about. Call inside `commit`. */
  emit(events: readonly NewEvent[], stamps: readonly Stamp[] = []): void {
    const lines = [...Map.groupBy(events, ({ Account }) => Account).values()].flatMap(slices);
    if (lines.length === 0 && stamps.length > 0) lines.push([]);
    for (const [at, line] of lines.entries()) this.#host.enlist({ events: line, stamps: at === 0 ? stamps : [] });
  }

  /** Like `emit`, as one line however many events it has. @returns what `indexOf` takes */
  emitLine(events: readonly NewEvent[], stamps: readonly Stamp[]): number {
    return this.#host.enlist({ events, stamps });
  }

  /** Like `emitLine`, for changes that note by which line they are told. */
  emitNoted(tell: (line: number) => Entry<Stamp>): number {
    return this.#host.enlist(tell);
  }

  /** Resolves when what was promised has been tried once; what failed follows later. Never rejects. */
  async published(): Promise<void> {
    await this.#host.drain();
  }

  /** Publishes, and answers the index that a line got; null when the stream could not take it yet. */
  async indexOf(line: number): Promise<number | null> {
    this.#awaited.set(line, null);
    await this.published();
    const index = this.#awaited.get(line) ?? null;
    this.#awaited.delete(line);
    return index;
  }

  /** Appends promised lines, in order. Their rows get their indexes in the transaction that forgets the promise. */
  async deliver(rows: readonly OutboxRow[]): Promise<() => void> {
    const entries = rows.map(({ body }) => JSON.parse(body) as Entry<Stamp>);
    const indexes = await this.#append(rows, entries);
    rows.forEach(({ seq }, position) => {
      if (this.#awaited.has(seq)) this.#awaited.set(seq, indexes[position] ?? null);
    });
    return () => {
      entries.forEach(({ stamps }, position) => {
        for (const stamp of stamps) this.#host.stamp(stamp, indexes[position] ?? 0);
      });
      this.#host.stamped?.();
    };
  }

  /** Appends lines in order; those that must know an earlier line's index wait for it. */
  async #append(rows: readonly OutboxRow[], entries: readonly Entry<Stamp>[]): Promise<number[]> {
    const indexes = new Map<number, number>();
    const append = async (batch: readonly Append[]) => {
      const given = await this.#host.append([...batch]);
      batch.forEach(({ seq }, position) => {
        indexes.set(seq, given[position] ?? 0);
      });
    };
    let batch: Append[] = [];
    for (const [position, { seq }] of rows.entries()) {
      const { events, origins = [] } = entries[position] ?? { events: [] };
      const unknown = [...new Set(origins.map(([, , line]) => line))].filter((line) => !indexes.has(line));
      if (unknown.some((line) => batch.some((each) => each.seq === line))) {
        await append(batch);
        batch = [];
      }
      // Taken before, so appending it again adds nothing and answers its index.
      const before = unknown.filter((line) => !indexes.has(line)).sort((a, b) => a - b);
      if (before.length > 0) await append(before.map((line) => ({ seq: line, events: [] })));
      batch.push({ seq, events: withOrigins(events, origins, indexes) });
    }
    if (batch.length > 0) await append(batch);
    return rows.map(({ seq }) => indexes.get(seq) ?? 0);
  }
}

/** A revocation may take thousands of tokens along; no line of the stream grows with them. */
function slices(events: readonly NewEvent[]): (readonly NewEvent[])[] {
  const count = Math.ceil(events.length / EVENTS_PER_LINE);
  return Array.from({ length: count }, (_, at) => events.slice(at * EVENTS_PER_LINE, (at + 1) * EVENTS_PER_LINE));
}

function withOrigins(
  events: readonly NewEvent[],
  origins: readonly Origin[],
  indexes: ReadonlyMap<number, number>,
): readonly NewEvent[] {
  if (origins.length === 0) return events;
  const byEvent = Map.groupBy(origins, ([event]) => event);
  return events.map((event, position) => {
    const lineAt = new Map(byEvent.get(position)?.map(([, cut, line]) => [cut, line]));
    if (lineAt.size === 0 || !Array.isArray(event.Payload)) return event;
    const [head = "", ...pieces] = event.Payload as readonly string[];
    const text = [head];
    for (const [cut, piece] of pieces.entries()) {
      const line = lineAt.get(cut);
      if (line === undefined) text.push(piece);
      else text.push(`${text.pop()}${indexes.get(line) ?? 0}${piece}`);
    }
    return { ...event, Payload: text };
  });
}
