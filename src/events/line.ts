import type { StreamEvent } from "../contracts/event.ts";
import { type EventHeader, headerOf, headersIn, headersText, parseHeaders } from "../publishing/event-headers.ts";
import type { Matcher } from "./subscription.ts";

/** Converts one event to a dialect; returns the same JSON where nothing differs. */
export type View = (fact: EventHeader, json: string) => string;

/** One line of the log: its text and its headers. Filters use only the headers; payloads are never parsed. */
export class Line {
  #headers: readonly EventHeader[] | string | null;

  private constructor(
    readonly index: number,
    /** The events as a JSON array. */
    readonly text: string,
    headers: readonly EventHeader[] | string | null,
  ) {
    this.#headers = headers;
  }

  static of(index: number, events: readonly StreamEvent[]): Line {
    const texts = events.map((event) => JSON.stringify(event));
    const headers = events.map((event, position) => headerOf(event, texts[position]?.length ?? 0));
    return new Line(index, `[${texts.join(",")}]`, headers);
  }

  /** @param headers headers as stored; null when none were stored */
  static stored(index: number, text: string, headers: string | null): Line {
    return new Line(index, text, headers);
  }

  get headers(): readonly EventHeader[] {
    if (typeof this.#headers === "string") this.#headers = parseHeaders(this.#headers);
    this.#headers ??= headersIn(this.text);
    return this.#headers;
  }

  /** The headers as stored, unparsed; null when none were stored. */
  get storedHeaders(): string | null {
    return typeof this.#headers === "object" && this.#headers !== null ? headersText(this.#headers) : this.#headers;
  }

  /** The matching events as a JSON array, or null when there are none. */
  textFor({ everything, wants }: Matcher, view: View | null): string | null {
    if (this.text === "[]") return null;
    if (everything && !view) return this.text;
    const shown: string[] = [];
    let same = true;
    let at = 1;
    for (const fact of this.headers) {
      const wanted = everything || wants(fact, this.index);
      const json = wanted ? this.text.slice(at, at + fact.length) : "";
      at += fact.length + 1;
      const text = view && wanted ? view(fact, json) : json;
      if (wanted) shown.push(text);
      same &&= wanted && text === json;
    }
    if (shown.length === 0) return null;
    return same ? this.text : `[${shown.join(",")}]`;
  }
}
