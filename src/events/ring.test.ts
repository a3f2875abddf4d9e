import { describe, expect, it } from "vitest";
import { numbered } from "./event.ts";
import { Line } from "./line.ts";
import { Ring } from "./ring.ts";
import { matcher } from "./subscription.ts";

const event = (Key: string, Payload: Record<string, unknown> = {}) => ({
  Topic: "Job",
  Type: "JobRegistered",
  Key,
  Namespace: "default",
  FilterKeys: null,
  Payload,
});
const line = (index: number, ...keys: string[]) =>
  Line.of(
    index,
    numbered(
      keys.map((key) => event(key)),
      index,
    ),
  );
const indexes = (lines: readonly Line[] | null) => lines?.map(({ index }) => index) ?? null;

describe("the ring", () => {
  it("has every line after a cursor, or says that it has not", () => {
    const ring = new Ring(3);
    expect(ring.after(0)).toBeNull();
    for (let index = 5; index <= 8; index++) ring.push(line(index, "a"));
    expect(indexes(ring.after(8))).toEqual([]);
    expect(indexes(ring.after(6))).toEqual([7, 8]);
    expect(indexes(ring.after(5))).toEqual([6, 7, 8]);
    expect(ring.after(4)).toBeNull();
    expect(ring.after(-1)).toBeNull();
  });

  it("is bounded by size, yet keeps the newest line however large", () => {
    const ring = new Ring(100, 1_000);
    for (let index = 1; index <= 5; index++) ring.push(line(index, "x".repeat(400)));
    expect(ring.after(0)).toBeNull();
    expect(indexes(ring.after(4))).toEqual([5]);
    ring.push(line(6, "x".repeat(5_000)));
    expect(indexes(ring.after(5))).toEqual([6]);
    expect(ring.after(4)).toBeNull();
  });
});

describe("a line", () => {
  const all = matcher({ topics: { "*": ["*"] }, namespaces: null });
  const only = (key: string) => matcher({ topics: { "*": [key] }, namespaces: null });
  const text = (bytes: Uint8Array | null) => bytes && new TextDecoder().decode(bytes);

  it("holds the events that a reader wants, and is nothing without one", () => {
    const two = line(7, "a", "b");
    expect(JSON.parse(text(two.bytesFor(only("b"))) ?? "")).toEqual({
      Index: 7,
      Events: [{ ...event("b"), Index: 7 }],
    });
    expect(two.bytesFor(only("c"))).toBeNull();
  });

  it("is the same bytes for all who want the whole of it, from memory and from disk", () => {
    const made = line(7, "é\n", "b");
    const read = Line.stored({ idx: 7, events: made.text, bytes: made.size });
    expect(made.bytesFor(all)).toBe(made.bytesFor(matcher({ topics: { Job: ["*"] }, namespaces: ["default"] })));
    expect(text(read.bytesFor(all))).toBe(text(made.bytesFor(all)));
    expect(text(made.bytesFor(all))).toBe(`{"Index":7,"Events":${made.text}}\n`);
    expect(made.size).toBe(Buffer.byteLength(made.text));
  });
});

it("numbering fills in the indexes that are null, one level deep, and changes nothing it was given", () => {
  const given = event("a", {
    Job: { CreateIndex: null, ModifyIndex: null, Inner: { ModifyIndex: null } },
    Deleted: true,
  });
  const before = structuredClone(given);
  expect(numbered([given], 9)[0]).toEqual({
    ...given,
    Index: 9,
    Payload: { Job: { CreateIndex: 9, ModifyIndex: 9, Inner: { ModifyIndex: null } }, Deleted: true },
  });
  expect(given).toEqual(before);
});
