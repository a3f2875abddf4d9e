import { describe, expect, it } from "vitest";
import type { NewEvent } from "../contracts/event.ts";
import type { IndexBackfill } from "../platform/durable/blocking/index-backfill.ts";
import { type ChangeSet, mergeChangeSets, publishChanges } from "./change-set.ts";
import { EventPublisher } from "./event-publisher.ts";

const event = (Topic: string, Key: string, length = 0, character = "x"): NewEvent => ({
  Topic,
  Type: "NodeEvent",
  Key,
  Namespace: "",
  FilterKeys: null,
  Payload: { [Topic]: { ID: Key, text: character.repeat(length) } },
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

/** A publisher, and the entries that it enlists. */
function publisher() {
  const lines: Stored[] = [];
  const events = new EventPublisher<IndexBackfill>({
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
  return { events, lines };
}

/** The entries that a change becomes. */
function published(changes: ChangeSet) {
  const { events, lines } = publisher();
  const first = publishChanges(events, () => changes);
  return { first, lines };
}

const bytesOf = (line: Stored): number => Buffer.byteLength(JSON.stringify(line));

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

  it("counts bytes of UTF-8, not characters", () => {
    const volumes = ["a", "b", "c"].map((id) => ({
      events: [event("HostVolume", id, 200_000, "\u7b56")],
      backfills: [],
    }));
    const { lines } = published(mergeChangeSets([node, ...volumes]));
    expect(lines.map(({ events }) => events.map(({ Key }) => Key))).toEqual([["n", "a"], ["b"], ["c"]]);
  });
});

describe("the events of a change", () => {
  it("are split into lines of bounded number and bytes", () => {
    const { events, lines } = publisher();
    events.emit(Array.from({ length: 70 }, (_, at) => event("ACLToken", `${at}`, 33_000, "\u7b56")));
    events.emit(Array.from({ length: 101 }, (_, at) => event("ACLToken", `${at}`)));
    events.emitLine(
      ["a", "b"].map((id) => event("CSIVolume", id, 900_000)),
      [],
    );
    expect(lines.map((line) => line.events.length)).toEqual([...Array(7).fill(10), 100, 1, 1, 1]);
    expect(Math.max(...lines.map(bytesOf))).toBeLessThan(1_100_000);
  });

  it("lose a payload that exceeds a row by itself", () => {
    const { events, lines } = publisher();
    events.emit([event("ACLPolicy", "p", 400_000, "\u0001"), event("ACLPolicy", "q")]);
    expect(lines.flatMap((line) => line.events)).toEqual([
      { ...event("ACLPolicy", "p"), Payload: {} },
      event("ACLPolicy", "q"),
    ]);
  });
});
