import type { NewEvent } from "../../events/event.ts";
import type { Origin } from "../../events/journal.ts";
import type { Stamp } from "../stamp.ts";
import type { Node, NodeEventType } from "./record.ts";

/** What a change puts into its line: events, and the rows that get the line's index. */
export interface Told {
  readonly events: readonly NewEvent[];
  readonly stamps: readonly Stamp[];
  readonly origins?: readonly Origin[];
}

export function together(parts: readonly Told[]): Told {
  const events: NewEvent[] = [];
  const origins: Origin[] = [];
  for (const part of parts) {
    for (const [event, cut, line] of part.origins ?? []) origins.push([events.length + event, cut, line]);
    events.push(...part.events);
  }
  return { events, stamps: parts.flatMap(({ stamps }) => stamps), origins };
}

export const NOTHING: Told = { events: [], stamps: [] };

/** What changes together with a node: in its transaction, told in its line. */
export interface NodeFollower {
  /** @param before null for a new node; @param after null for one that is gone */
  nodeChanged(before: Node | null, after: Node | null, type: NodeEventType): Told;
}
