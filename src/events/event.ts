/** One fact about the cluster, as a producer reports it. The log adds the index. */
export interface NewEvent {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly FilterKeys: readonly string[] | null;
  /** One key, named after the object; never a secret. `CreateIndex: null` and `ModifyIndex: null` inside become the index. */
  readonly Payload: Readonly<Record<string, unknown>>;
}

/** One line of the stream before its index is known. */
export interface Append {
  /** The producer's own number, growing; with the source's name it makes appending idempotent. */
  readonly seq: number;
  readonly events: readonly NewEvent[];
}

export interface StreamEvent extends NewEvent {
  readonly Index: number;
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
    Payload: Object.fromEntries(Object.entries(event.Payload).map(([key, object]) => [key, withIndex(object, index)])),
  }));
}

function withIndex(object: unknown, index: number): unknown {
  if (typeof object !== "object" || object === null) return object;
  const copy: Record<string, unknown> = { ...object };
  for (const field of ["CreateIndex", "ModifyIndex"]) if (copy[field] === null) copy[field] = index;
  return copy;
}
