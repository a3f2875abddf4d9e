import type { NewEvent } from "../../events/event.ts";
import type { Stamp } from "../stamp.ts";
import type { Node, NodeEventType } from "./record.ts";

/** What a change puts into its line: events, and the rows that get the line's index. */
export interface Told {
  readonly events: readonly NewEvent[];
  readonly stamps: readonly Stamp[];
}

export const together = (parts: readonly Told[]): Told => ({
  events: parts.flatMap(({ events }) => events),
  stamps: parts.flatMap(({ stamps }) => stamps),
});

export const NOTHING: Told = { events: [], stamps: [] };

/** What changes together with a node: in its transaction, told in its line. */
export interface NodeFollower {
  /** @param before null for a new node; @param after null for one that is gone */
  nodeChanged(before: Node | null, after: Node | null, type: NodeEventType): Told;
}
