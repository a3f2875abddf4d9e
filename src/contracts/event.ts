import { parseLossless } from "../lib/json.ts";

/** One fact about the cluster, as a producer reports it. The log adds the index. */
export interface NewEvent {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly FilterKeys: readonly string[] | null;
  /** Whose share of the backlog its line counts against: see `Shares`. No reader sees it. */
  readonly Account?: string;
  /**
   * One key, named after the object; never a secret. `CreateIndex: null` and `ModifyIndex: null` inside become the index.
   * Or its JSON text, cut where the index belongs: numbers beyond 2^53, such as times in nanoseconds, pass as they are.
   */
  readonly Payload: Readonly<Record<string, unknown>> | readonly string[];
}

/** One line of the stream before its index is known. */
export interface Append {
  /** The producer's own number, growing; with the source's name it makes appending idempotent. */
  readonly seq: number;
  readonly events: readonly NewEvent[];
}

export interface StreamEvent extends Omit<NewEvent, "Account"> {
  readonly Index: number;
  readonly Payload: Readonly<Record<string, unknown>>;
}

export interface Line {
  readonly Index: number;
  readonly Events: readonly StreamEvent[];
}

/** Gives a line its index, in the events and in the indexes that their objects do not know yet. */
export function numbered(events: readonly NewEvent[], index: number): StreamEvent[] {
  return events.map((event) => ({
    Topic: event.Topic,
    Type: event.Type,
    Key: event.Key,
    Namespace: event.Namespace,
    FilterKeys: event.FilterKeys,
    Index: index,
    Payload: payloadAt(event.Payload, index),
  }));
}

function payloadAt(payload: NewEvent["Payload"], index: number): StreamEvent["Payload"] {
  if (isText(payload)) return parseLossless(payload.join(String(index))) as StreamEvent["Payload"];
  return Object.fromEntries(Object.entries(payload).map(([key, object]) => [key, withIndex(object, index)]));
}

const isText = (payload: NewEvent["Payload"]): payload is readonly string[] => Array.isArray(payload);

function withIndex(object: unknown, index: number): unknown {
  if (typeof object !== "object" || object === null) return object;
  const copy: Record<string, unknown> = { ...object };
  for (const field of ["CreateIndex", "ModifyIndex"]) if (copy[field] === null) copy[field] = index;
  return copy;
}
