import type { StreamEvent } from "../contracts/event.ts";
import { type Fact, factOf, factsIn, factsText, readFacts } from "../contracts/event-headers.ts";
import type { Matcher } from "./subscription.ts";

/** How a dialect shows one event: the same JSON where nothing differs. */
export type View = (fact: Fact, json: string) => string;

/** One line of the log. It keeps its text and what filters look at; payloads are never parsed to find out who wants them. */
export class Line {
  readonly index: number;
  /** The events as a JSON array. */
  readonly text: string;
  #facts: readonly Fact[] | string | null;

  private constructor(index: number, text: string, facts: readonly Fact[] | string | null) {
    this.index = index;
    this.text = text;
    this.#facts = facts;
  }

  static of(index: number, events: readonly StreamEvent[]): Line {
    const texts = events.map((event) => JSON.stringify(event));
    const facts = events.map((event, position) => factOf(event, texts[position]?.length ?? 0));
    return new Line(index, `[${texts.join(",")}]`, facts);
  }

  /** @param facts as they were stored; null when they were not */
  static stored(index: number, text: string, facts: string | null): Line {
    return new Line(index, text, facts);
  }

  get facts(): readonly Fact[] {
    if (typeof this.#facts === "string") this.#facts = readFacts(this.#facts);
    this.#facts ??= factsIn(this.text);
    return this.#facts;
  }

  /** The facts as they are stored, without reading them; null when they were not. */
  get storedFacts(): string | null {
    return typeof this.#facts === "object" && this.#facts !== null ? factsText(this.#facts) : this.#facts;
  }

  /** The events that one kind of reader gets, as a JSON array, or null when there is none. */
  textFor({ everything, wants }: Matcher, view: View | null): string | null {
    if (this.text === "[]") return null;
    if (everything && !view) return this.text;
    const shown: string[] = [];
    let same = true;
    let at = 1;
    for (const fact of this.facts) {
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
