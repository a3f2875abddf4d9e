import type { Append, NewEvent } from "../events/event.ts";
import type { OutboxRow } from "../outbox.ts";

/** Rows whose indexes the event log fills in once it has taken the event. */
export type Stamp = { token: string } | { policy: [namespace: string, name: string] } | { clusterNamespace: string };

interface Entry {
  readonly events: readonly NewEvent[];
  readonly stamps: readonly Stamp[];
}

/** What the journal needs of the object it belongs to. */
interface Host {
  commit<T>(change: () => T): T;
  enlist(entry: Entry): void;
  drain(): Promise<void>;
  append(entries: Append[]): Promise<number[]>;
  stamp(stamp: Stamp, index: number): void;
}

const EVENTS_PER_LINE = 100;

/**
 * How a change of access becomes durable and reaches the event stream: `commit` with `emit` inside makes both certain at once,
 * `published` then gives the stream the chance to have it before the caller is answered.
 */
export class Journal {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Runs a change as one transaction. */
  commit<T>(change: () => T): T {
    return this.#host.commit(change);
  }

  /** Promises events, and indexes to the rows that they are about. Call inside `commit`. */
  emit(events: readonly NewEvent[], stamps: readonly Stamp[] = []): void {
    // A revocation may take thousands of tokens along; no line of the stream grows with them.
    for (let at = 0; at < events.length || (at === 0 && stamps.length > 0); at += EVENTS_PER_LINE) {
      this.#host.enlist({ events: events.slice(at, at + EVENTS_PER_LINE), stamps: at === 0 ? stamps : [] });
    }
  }

  /** Resolves when what was promised has been tried once; what failed follows later. Never rejects. */
  async published(): Promise<void> {
    await this.#host.drain();
  }

  /** Appends promised lines, in order. Their rows get their indexes in the transaction that forgets the promise. */
  async deliver(rows: readonly OutboxRow[]): Promise<() => void> {
    const entries = rows.map(({ body }) => JSON.parse(body) as Entry);
    const indexes = await this.#host.append(
      rows.map(({ seq }, position) => ({ seq, events: entries[position]?.events ?? [] })),
    );
    return () => {
      entries.forEach(({ stamps }, position) => {
        for (const stamp of stamps) this.#host.stamp(stamp, indexes[position] ?? 0);
      });
    };
  }
}
