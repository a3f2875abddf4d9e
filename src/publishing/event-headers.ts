import type { StreamEvent } from "../contracts/event.ts";
import { itemLengths } from "../lib/json.ts";

/** The fields of an event that filters match. */
export type Labels = Pick<StreamEvent, "Topic" | "Type" | "Key" | "Namespace" | "FilterKeys">;

/** One event of a line, without its payload. */
export interface EventHeader extends Labels {
  /** Characters of its JSON within the line's text, where events follow each other with one comma between. */
  readonly length: number;
}

/*
 * Headers are stored beside each line as `[[length, Topic, Type, Namespace, Key, ...FilterKeys], …]`, so that filters
 * need not parse the far larger events.
 */
type Row = [length: number, topic: string, type: string, namespace: string, key: string, ...filterKeys: string[]];

export const headersText = (headers: readonly EventHeader[]): string =>
  JSON.stringify(
    headers.map(
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

export const parseHeaders = (text: string): EventHeader[] =>
  (JSON.parse(text) as Row[]).map(([length, Topic, Type, Namespace, Key, ...FilterKeys]) => ({
    length,
    Topic,
    Type,
    Namespace,
    Key,
    FilterKeys,
  }));

/** Headers computed from stored events. Their lengths are those of the text, whose numbers are kept verbatim. */
export function headersIn(text: string): EventHeader[] {
  const lengths = itemLengths(text);
  return (JSON.parse(text) as StreamEvent[]).map((event, at) => headerOf(event, lengths[at] ?? 0));
}

export const headerOf = ({ Topic, Type, Namespace, Key, FilterKeys }: StreamEvent, length: number): EventHeader => ({
  length,
  Topic,
  Type,
  Namespace,
  Key,
  FilterKeys,
});

/** The form of a text within stored headers. */
export const traceOf = (text: string): string => JSON.stringify(text);
