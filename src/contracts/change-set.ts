import type { IndexBackfill } from "../platform/durable/blocking/index-backfill.ts";
import type { NewEvent } from "./event.ts";
import type { Journal, Origin } from "./event-publisher.ts";
import type { Node, NodeEventType } from "./node.ts";

/** What a change puts into its line: events, and the rows that get the line's index. */
export interface Told {
  readonly events: readonly NewEvent[];
  readonly stamps: readonly IndexBackfill[];
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

/** A row and a line hold some 2 MB; what a node takes along may be more. */
const LINE_BYTES = 1_000_000;

/**
 * Promises the line that tells of a change, inside the caller's transaction, and further lines for what does not fit in it.
 * @returns the number of the first
 */
export function tell(journal: Journal<IndexBackfill>, change: (line: number) => Told): number {
  const rest: Told[] = [];
  const first = journal.emitNoted((line) => {
    const [head = NOTHING, ...others] = inLines(change(line));
    rest.push(...others);
    return head;
  });
  for (const { events, stamps } of rest) journal.emitLine(events, stamps);
  return first;
}

/** A row's index is that of the line that tells of it; a row that no event tells of goes with the first line. */
function inLines({ events, stamps, origins = [] }: Told): Told[] {
  const lines: NewEvent[][] = [[]];
  let bytes = 0;
  for (const event of events) {
    const size = JSON.stringify(event).length;
    if (bytes > 0 && bytes + size > LINE_BYTES) {
      lines.push([]);
      bytes = 0;
    }
    lines.at(-1)?.push(event);
    bytes += size;
  }
  const lineOf = ({ table, row }: IndexBackfill) =>
    Math.max(
      0,
      lines.findIndex((line) => line.some(({ Topic, Key }) => Topic === table && row.includes(Key))),
    );
  const stamped = lines.length === 1 ? new Map([[0, stamps]]) : Map.groupBy(stamps, lineOf);
  // Only a node's own event, which comes first, may wait for an earlier line.
  return lines.map((line, at) => ({ events: line, stamps: stamped.get(at) ?? [], origins: at === 0 ? origins : [] }));
}

export const NOTHING: Told = { events: [], stamps: [] };

/** What changes together with a node: in its transaction, told in its line. */
export interface NodeFollower {
  /** @param before null for a new node; @param after null for one that is gone */
  nodeChanged(before: Node | null, after: Node | null, type: NodeEventType): Told;
  /** The volumes that a node shows have changed, and nothing else of it. @param ids of those that did */
  volumesChanged?(nodeId: string, ids: readonly string[], type: NodeEventType): Told;
}
