import type { NewEvent, StreamEvent } from "../contracts/event.ts";
import { parseLossless } from "../lib/json.ts";

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
