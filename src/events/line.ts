import type { StreamEvent } from "./event.ts";
import type { Matcher } from "./subscription.ts";

const encoder = new TextEncoder();

/** One object and one line feed: what every piece of the stream is. */
export const encodeLine = (line: object): Uint8Array => encoder.encode(`${JSON.stringify(line)}\n`);

/** One line of the log. Parsed and encoded at most once however many readers it goes to, and only if one of them needs it. */
export class Line {
  readonly index: number;
  /** The events as a JSON array, as they are stored. */
  readonly text: string;
  /** Bytes of that text. */
  readonly size: number;
  #events: readonly StreamEvent[] | undefined;
  #whole: Uint8Array | undefined;

  private constructor(index: number, text: string, size: number, events?: readonly StreamEvent[]) {
    this.index = index;
    this.text = text;
    this.size = size;
    this.#events = events;
  }

  static of(index: number, events: readonly StreamEvent[]): Line {
    const text = JSON.stringify(events);
    return new Line(index, text, Buffer.byteLength(text), events);
  }

  static stored({ idx, events, bytes }: { idx: number; events: string; bytes: number }): Line {
    return new Line(idx, events, bytes);
  }

  /** The line as one kind of reader gets it, or null when none of its events is for them. */
  bytesFor({ everything, wants }: Matcher): Uint8Array | null {
    if (everything) return this.#encoded();
    this.#events ??= JSON.parse(this.text) as StreamEvent[];
    const wanted = this.#events.filter(wants);
    if (wanted.length === 0) return null;
    return wanted.length === this.#events.length ? this.#encoded() : encodeLine({ Index: this.index, Events: wanted });
  }

  #encoded(): Uint8Array {
    this.#whole ??= encoder.encode(`{"Index":${this.index},"Events":${this.text}}\n`);
    return this.#whole;
  }
}
