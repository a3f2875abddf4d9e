import type { Append, NewEvent } from "../contracts/event.ts";
import type { NameChanges } from "../platform/durable/object-context.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import { eventLog } from "../rpc/stubs.ts";
import { linesOf } from "./event-lines.ts";

/**
 * A placeholder in an event's text for the index of an earlier pending line, such as the line that created the object:
 * position of the event, position of the cut, number of the line.
 */
export type Origin = readonly [event: number, cut: number, line: number];

/** The events of one change, and the rows that receive the index of its line. */
export interface Entry<Backfill> {
  readonly events: readonly NewEvent[];
  readonly backfills: readonly Backfill[];
  readonly origins?: readonly Origin[];
}

/** An entry in the outbox. Its words stay as they are: versions before and after this one read the rows. */
interface StoredEntry<Backfill> extends Pick<Entry<Backfill>, "events" | "origins"> {
  readonly stamps: readonly Backfill[];
}

/** The rows of an object that receive the indexes of their lines. */
export interface BackfilledRows<Backfill> {
  /** Writes the index to a row, in the transaction that deletes the entry: see `storedLater`. */
  setIndex(backfill: Backfill, index: number): void;
  /** Called after the indexes are written, in the same transaction. */
  indexesSet?(): void;
}

/** Appends to the event log under the name of one source. */
export class EventSource {
  constructor(
    private readonly env: Env,
    private readonly source: string,
  ) {}

  /** Idempotent by the numbers of the entries. @returns the index of each */
  append(entries: Append[]): Promise<number[]> {
    return eventLog(this.env).append(this.source, entries);
  }

  /** The newest index of the event log, of any source. */
  async newest(): Promise<number> {
    return eventLog(this.env).newest();
  }
}

interface EventPublisherDependencies<Backfill> {
  readonly source: Pick<EventSource, "append">;
  /** Rows of the topic `event`: see `deliver`. */
  readonly outbox: Pick<Outbox, "drain" | "enlist" | "settle">;
  readonly rows: BackfilledRows<Backfill>;
  commit<T>(change: () => T, keys?: NameChanges): T;
}

/** Topic and lane of pending lines in the outbox: one lane, so that lines keep their order. */
const TOPIC = "event";
const LANE = "log";

/** Bounds the lines of revocations with thousands of descendants, beside their bytes. */
const EVENTS_PER_LINE = 100;

/**
 * Publishes changes of an object to the event log: `emit` inside `commit` stores change and events in one transaction,
 * `delivered` or `published` then attempts the delivery before the caller is answered.
 */
export class EventPublisher<Backfill> {
  /** Entries with waiting callers of `indexOf`. */
  readonly #awaited = new Map<number, number | null>();

  constructor(private readonly deps: EventPublisherDependencies<Backfill>) {}

  /** Runs a change as one transaction. @param keys see `StoredObject.commit` */
  commit<T>(change: () => T, keys?: NameChanges): T {
    return this.deps.commit(change, keys);
  }

  /** Enqueues events, grouped into lines by account, and the rows that receive their indexes. Call inside `commit`. */
  emit(events: readonly NewEvent[], backfills: readonly Backfill[] = []): void {
    const accounts = [...Map.groupBy(events, ({ Account }) => Account).values()];
    const lines = accounts.flatMap((some) => linesOf(some, EVENTS_PER_LINE));
    if (lines.length > 0 || backfills.length > 0) this.#enlistLines(lines, backfills);
  }

  /** Enqueues a line without events: rights through entities have changed. Call inside `commit`. */
  emitEntityChange(): void {
    this.#enlist({ events: [], backfills: [] });
  }

  /** Like `emit`, as a single line unless it exceeds a row. @returns the number that `indexOf` takes, of the last line */
  emitLine(events: readonly NewEvent[], backfills: readonly Backfill[]): number {
    return this.#enlistLines(linesOf(events), backfills);
  }

  /** Like `emitLine`, for changes that record the number of their line. The caller bounds its size: see `linesOf`. */
  emitNumbered(entryOf: (line: number) => Entry<Backfill>): number {
    return this.deps.outbox.enlist(TOPIC, LANE, (line: number) => stored(entryOf(line)));
  }

  /** Rows receive the index of the first line. @returns the number of the last line */
  #enlistLines([first = [], ...others]: readonly (readonly NewEvent[])[], backfills: readonly Backfill[]): number {
    const number = this.#enlist({ events: first, backfills });
    return others.reduce((_before, events) => this.#enlist({ events, backfills: [] }), number);
  }

  #enlist(entry: Entry<Backfill>): number {
    return this.deps.outbox.enlist(TOPIC, LANE, stored(entry));
  }

  /** Resolves after one delivery attempt; failures are retried later. Never rejects. */
  async delivered(): Promise<void> {
    await this.deps.outbox.drain(TOPIC, LANE);
  }

  /** Like `delivered`. The rows of delivered lines have their indexes then: for changes whose answer shows them. */
  async published(): Promise<void> {
    await this.delivered();
    this.deps.outbox.settle();
  }

  /** Publishes and returns the index of a line; null when the delivery failed for now. */
  async indexOf(line: number): Promise<number | null> {
    this.#awaited.set(line, null);
    await this.delivered();
    const index = this.#awaited.get(line) ?? null;
    this.#awaited.delete(line);
    return index;
  }

  /** Appends pending lines in order. Rows receive their indexes in the transaction that deletes the entries. */
  async deliver(rows: readonly OutboxRow[]): Promise<() => void> {
    const entries = rows.map(({ body }) => JSON.parse(body) as StoredEntry<Backfill>);
    const indexes = await this.#append(rows, entries);
    rows.forEach(({ seq }, position) => {
      if (this.#awaited.has(seq)) this.#awaited.set(seq, indexes[position] ?? null);
    });
    return () => {
      entries.forEach(({ stamps }, position) => {
        for (const backfill of stamps) this.deps.rows.setIndex(backfill, indexes[position] ?? 0);
      });
      this.deps.rows.indexesSet?.();
    };
  }

  /** Appends lines in order; a line with a placeholder waits for the earlier index. */
  async #append(rows: readonly OutboxRow[], entries: readonly StoredEntry<Backfill>[]): Promise<number[]> {
    const indexes = new Map<number, number>();
    const append = async (batch: readonly Append[]) => {
      const given = await this.deps.source.append([...batch]);
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
      // The log has this line already: appending is idempotent and returns its index.
      const before = unknown.filter((line) => !indexes.has(line)).sort((a, b) => a - b);
      if (before.length > 0) await append(before.map((line) => ({ seq: line, events: [] })));
      batch.push({ seq, events: withOrigins(events, origins, indexes) });
    }
    if (batch.length > 0) await append(batch);
    return rows.map(({ seq }) => indexes.get(seq) ?? 0);
  }
}

const stored = <Backfill>({ backfills, ...entry }: Entry<Backfill>): StoredEntry<Backfill> => ({
  ...entry,
  stamps: backfills,
});

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
