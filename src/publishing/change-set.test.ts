import { describe, expect, it } from "vitest";
import type { NewEvent } from "../contracts/event.ts";
import type { IndexBackfill } from "../platform/durable/blocking/index-backfill.ts";
import { type ChangeSet, mergeChangeSets, publishChanges } from "./change-set.ts";
import { EventPublisher } from "./event-publisher.ts";

const event = (Topic: string, Key: string, bytes = 0): NewEvent => ({
  Topic,
  Type: "NodeEvent",
  Key,
  Namespace: "",
  FilterKeys: null,
  Payload: { [Topic]: { ID: Key, text: "x".repeat(bytes) } },
});

const volume = (id: string, bytes: number): ChangeSet => ({
  events: [event("HostVolume", id, bytes)],
  backfills: [{ table: "HostVolume", row: [id] }],
});

const node: ChangeSet = {
  events: [event("Node", "n")],
  backfills: [{ table: "Node", row: ["1", "7"] }],
  origins: [[0, 1, 5]],
};

/** An entry as the outbox stores it. */
type Stored = Omit<ChangeSet, "backfills"> & { readonly stamps: ChangeSet["backfills"] };

/** The entries that a change becomes. */
function published(changes: ChangeSet) {
  const lines: Stored[] = [];
  const publisher = new EventPublisher<IndexBackfill>({
    source: { append: async () => [] },
    outbox: {
      enlist: (_topic: string, _lane: string, entry: unknown) =>
        lines.push((typeof entry === "function" ? entry(7) : entry) as Stored),
      drain: async () => undefined,
      settle: () => undefined,
    },
    rows: { setIndex: () => undefined },
    commit: (change) => change(),
  });
  const first = publishChanges(publisher, () => changes);
  return { first, lines };
}

describe("a change set", () => {
  it("is published as one event line with all of its rows", () => {
    const changes = mergeChangeSets([node, volume("a", 10), volume("b", 10)]);
    const { first, lines } = published(changes);
    expect(first).toBe(1);
    const { backfills, ...entry } = changes;
    expect(lines).toEqual([{ ...entry, stamps: backfills }]);
  });

  it("is split into several lines when one is too large, and each row stays with the line of its event", () => {
    const claim: IndexBackfill = { table: "claims", row: ["c"] };
    const { lines } = published(
      mergeChangeSets([node, ...["a", "b", "c"].map((id) => volume(id, 600_000)), { events: [], backfills: [claim] }]),
    );
    expect(lines.map(({ events }) => events.map(({ Key }) => Key))).toEqual([["n", "a"], ["b"], ["c"]]);
    expect(lines.map(({ stamps }) => stamps)).toEqual([
      [{ table: "Node", row: ["1", "7"] }, { table: "HostVolume", row: ["a"] }, claim],
      [{ table: "HostVolume", row: ["b"] }],
      [{ table: "HostVolume", row: ["c"] }],
    ]);
    expect(lines[0]?.origins).toEqual([[0, 1, 5]]);
  });

  it("keeps the positions of event indexes when change sets are merged", () => {
    expect(mergeChangeSets([volume("a", 1), node]).origins).toEqual([[1, 1, 5]]);
  });
});
