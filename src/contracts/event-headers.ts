import type { StreamEvent } from "./event.ts";

/** What filters look at in an event. */
export type Labels = Pick<StreamEvent, "Topic" | "Type" | "Key" | "Namespace" | "FilterKeys">;

/** One event of a line, without its payload. */
export interface Fact extends Labels {
  /** Characters of its JSON within the line's text, where events follow each other with one comma between. */
  readonly length: number;
}

/*
 * Facts are stored beside each line as `[[length, Topic, Type, Namespace, Key, ...FilterKeys], …]`: small enough to be looked
 * at line by line, so that the far larger events need not be.
 */
type Row = [length: number, topic: string, type: string, namespace: string, key: string, ...filterKeys: string[]];

export const factsText = (facts: readonly Fact[]): string =>
  JSON.stringify(
    facts.map(
      ({ length, Topic, Type, Namespace, Key, FilterKeys }): Row => [
        length,
        Topic,
        Type,
        Namespace,
        Key,
        ...(FilterKeys ?? []),
      ],
    ),
  );

export const readFacts = (text: string): Fact[] =>
  (JSON.parse(text) as Row[]).map(([length, Topic, Type, Namespace, Key, ...FilterKeys]) => ({
    length,
    Topic,
    Type,
    Namespace,
    Key,
    FilterKeys,
  }));

/** Facts from the events themselves. */
export const factsIn = (text: string): Fact[] =>
  (JSON.parse(text) as StreamEvent[]).map((event) => factOf(event, JSON.stringify(event).length));

export const factOf = ({ Topic, Type, Namespace, Key, FilterKeys }: StreamEvent, length: number): Fact => ({
  length,
  Topic,
  Type,
  Namespace,
  Key,
  FilterKeys,
});

/** How a text appears within stored facts, whatever else it appears in. */
export const traceOf = (text: string): string => JSON.stringify(text);
