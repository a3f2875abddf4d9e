import type { Line, StreamEvent } from "./event.ts";
import { matches, type Subscription } from "./subscription.ts";

const encoder = new TextEncoder();

interface Held {
  readonly index: number;
  readonly events: readonly StreamEvent[];
  readonly bytes: number;
  /** The line as each group of equal readers gets it; null when nothing in it is for them. */
  readonly encoded: Map<string, Uint8Array | null>;
}

/** Readers with equal filters and rights: they get the same bytes, so each line is filtered and encoded once for all of them. */
export const groupOf = ({ topics, namespaces }: Subscription): string => JSON.stringify([topics, namespaces]);

/** Encodes a line for one group of readers, or null when none of its events is for them. */
export function encodeFor(
  subscription: Subscription,
  index: number,
  events: readonly StreamEvent[],
): Uint8Array | null {
  const wanted = events.filter((event) => matches(subscription, event));
  if (wanted.length === 0) return null;
  const line: Line = { Index: index, Events: wanted };
  return encoder.encode(`${JSON.stringify(line)}\n`);
}

/** The newest lines, in memory: what live readers need. Bounded; older lines are read from storage. */
export class Ring {
  readonly #lines: Held[] = [];
  readonly #maxLines: number;
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxLines = 2_000, maxBytes = 8 * 1024 * 1024) {
    this.#maxLines = maxLines;
    this.#maxBytes = maxBytes;
  }

  push(index: number, events: readonly StreamEvent[], bytes: number): void {
    this.#lines.push({ index, events, bytes, encoded: new Map() });
    this.#bytes += bytes;
    while (this.#lines.length > 1 && (this.#lines.length > this.#maxLines || this.#bytes > this.#maxBytes)) {
      this.#bytes -= this.#lines.shift()?.bytes ?? 0;
    }
  }

  /** Whether every line after `cursor` is here. */
  covers(cursor: number): boolean {
    const [first] = this.#lines;
    return first !== undefined && first.index <= cursor + 1;
  }

  /**
   * The bytes of lines after `cursor` for one group, up to about `budget` bytes.
   * @returns the last index looked at, so that lines that are not for the reader are passed over only once
   */
  after(
    cursor: number,
    group: string,
    subscription: Subscription,
    budget: number,
  ): { chunks: Uint8Array[]; cursor: number } {
    const chunks: Uint8Array[] = [];
    let size = 0;
    let at = cursor;
    for (let position = this.#positionAfter(cursor); position < this.#lines.length && size < budget; position++) {
      const line = this.#lines[position];
      if (!line) break;
      let bytes = line.encoded.get(group);
      if (bytes === undefined) {
        bytes = encodeFor(subscription, line.index, line.events);
        line.encoded.set(group, bytes);
      }
      if (bytes) {
        chunks.push(bytes);
        size += bytes.length;
      }
      at = line.index;
    }
    return { chunks, cursor: at };
  }

  #positionAfter(cursor: number): number {
    let low = 0;
    let high = this.#lines.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#lines[middle]?.index ?? 0) <= cursor) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
