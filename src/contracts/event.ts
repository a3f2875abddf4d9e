import { parseLossless } from "../lib/json.ts";

/** An event as its producer appends it. The log assigns the index. */
export interface NewEvent {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly FilterKeys: readonly string[] | null;
  /** The account of its line in the backlog: see `Shares`. Not visible to readers. */
  readonly Account?: string;
  /**
   * One key, named after the object; never a secret. `CreateIndex: null` and `ModifyIndex: null` inside become the
   * index. Or its JSON text, split where the index belongs: numbers beyond 2^53, such as nanoseconds, keep all digits.
   */
  readonly Payload: Readonly<Record<string, unknown>> | readonly string[];
}

/** One line of the stream before its index is known. */
export interface Append {
  /** The producer's increasing number; appending is idempotent by source and number. */
  readonly seq: number;
  readonly events: readonly NewEvent[];
}

export interface StreamEvent extends Omit<NewEvent, "Account"> {
  readonly Index: number;
  readonly Payload: Readonly<Record<string, unknown>>;
}

/** Assigns the index of a line to its events and to the null indexes in their payloads. */
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
