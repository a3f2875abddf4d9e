import type { NewEvent } from "../contracts/event.ts";
import type { Node, NodeEventType } from "../contracts/node.ts";
import type { IndexBackfill } from "../platform/durable/blocking/index-backfill.ts";
import { linesOf } from "./event-lines.ts";
import type { Entry, EventPublisher, Origin } from "./event-publisher.ts";

export type ChangeSet = Entry<IndexBackfill>;

/** One change set of several, in their order. */
export function mergeChangeSets(parts: readonly ChangeSet[]): ChangeSet {
  const events: NewEvent[] = [];
  const origins: Origin[] = [];
  for (const part of parts) {
    for (const [event, cut, line] of part.origins ?? []) origins.push([events.length + event, cut, line]);
    events.push(...part.events);
  }
  return { events, backfills: parts.flatMap(({ backfills }) => backfills), origins };
}

/**
 * Enqueues the events of a change inside the caller's transaction, split into lines of bounded size: a change of a node
 * with its volumes may exceed a row.
 * @returns the number of the first line
 */
export function publishChanges(publisher: EventPublisher<IndexBackfill>, change: (line: number) => ChangeSet): number {
  const rest: ChangeSet[] = [];
  const first = publisher.emitNumbered((line) => {
    const [head = NO_CHANGES, ...others] = inLines(change(line));
    rest.push(...others);
    return head;
  });
  for (const { events, backfills } of rest) publisher.emitLine(events, backfills);
  return first;
}

/** A row gets the index of the line with its event; a row without an event gets that of the first line. */
function inLines({ events, backfills, origins = [] }: ChangeSet): ChangeSet[] {
  if (events.length === 0) return [{ events, backfills, origins }];
  const lines = linesOf(events);
  const lineOf = ({ table, row }: IndexBackfill) =>
    Math.max(
      0,
      lines.findIndex((line) => line.some(({ Topic, Key }) => Topic === table && row.includes(Key))),
    );
  const byLine = lines.length === 1 ? new Map([[0, backfills]]) : Map.groupBy(backfills, lineOf);
  // Only the node event, always the first, may depend on an earlier line.
  return lines.map((line, at) => ({ events: line, backfills: byLine.get(at) ?? [], origins: at === 0 ? origins : [] }));
}

/** The empty change set. */
export const NO_CHANGES: ChangeSet = { events: [], backfills: [] };

/** State that changes with a node: in the same transaction and the same line. */
export interface NodeFollower {
  /** @param before null for a new node; @param after null for a removed node */
  nodeChanged(id: string, before: Node | null, after: Node | null, type: NodeEventType): ChangeSet;
  /** Called when only the reported volumes of a node changed. @param ids the changed volumes */
  volumesChanged?(nodeId: string, ids: readonly string[], type: NodeEventType): ChangeSet;
}
