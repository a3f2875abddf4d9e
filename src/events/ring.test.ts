import { describe, expect, it } from "vitest";
import { headersText } from "../publishing/event-headers.ts";
import { numbered } from "../publishing/numbered-events.ts";
import { Line, type View } from "./line.ts";
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

describe("the ring buffer", () => {
  it("returns every line after a cursor or reports a gap", () => {
    const ring = new Ring(3);
    expect(ring.after(0)).toBeNull();
    for (let index = 5; index <= 8; index++) ring.push(line(index, "a"));
    expect(indexes(ring.after(8))).toEqual([]);
    expect(indexes(ring.after(6))).toEqual([7, 8]);
    expect(indexes(ring.after(5))).toEqual([6, 7, 8]);
    expect(ring.after(4)).toBeNull();
    expect(ring.after(-1)).toBeNull();
  });

  it("is bounded by size and always keeps the newest line", () => {
    const ring = new Ring(100, 1_000);
    for (let index = 1; index <= 5; index++) ring.push(line(index, "x".repeat(400)));
    expect(ring.after(0)).toBeNull();
    expect(indexes(ring.after(4))).toEqual([5]);
    const roomy = new Ring(100, 3_000);
    for (let index = 1; index <= 50; index++) roomy.push(line(index, "x".repeat(400)));
    expect(50 - (roomy.oldest ?? 0)).toBeGreaterThanOrEqual(3);
    ring.push(line(6, "x".repeat(5_000)));
    expect(indexes(ring.after(5))).toEqual([6]);
    expect(ring.after(4)).toBeNull();
  });
});

describe("a ring that has wrapped many times", () => {
  it("returns the newest lines, in order, for every cursor", () => {
    const ring = new Ring(10);
    for (let newest = 1; newest <= 100; newest++) {
      ring.push(line(newest, "a"));
      expect(ring.oldest).toBe(Math.max(1, newest - 9));
      for (let cursor = newest - 12; cursor <= newest; cursor++) {
        const expected = Array.from({ length: newest - cursor }, (_, at) => cursor + 1 + at);
        const isHeld = cursor + 1 >= (ring.oldest ?? 0);
        expect(indexes(ring.after(cursor)), `${cursor} of ${newest}`).toEqual(isHeld ? expected : null);
      }
    }
  });
});

describe("a line", () => {
  const all = matcher({ topics: { "*": ["*"] }, namespaces: null, rules: null });
  const only = (key: string) => matcher({ topics: { "*": [key] }, namespaces: null, rules: null });

  it("contains only the selected events and is skipped when none is selected", () => {
    const three = line(7, "a", "b", "é\n,");
    expect(JSON.parse(three.textFor(only("b"), null) ?? "")).toEqual([{ ...event("b"), Index: 7 }]);
    expect(JSON.parse(three.textFor(only("é\n,"), null) ?? "")).toEqual([{ ...event("é\n,"), Index: 7 }]);
    expect(three.textFor(only("c"), null)).toBeNull();
    expect(Line.of(8, []).textFor(all, null)).toBeNull();
  });

  it("is the same bytes for all readers of the whole line, from memory and from disk", () => {
    const made = line(7, "é\n", "b");
    const whole = matcher({ topics: { Job: ["*"] }, namespaces: ["default"], rules: null });
    expect(made.textFor(all, null)).toBe(made.text);
    expect(made.textFor(whole, null)).toBe(made.text);
    for (const facts of [headersText(made.headers), null]) {
      const read = Line.stored(7, made.text, facts);
      expect(read.textFor(all, null)).toBe(made.text);
      expect(read.textFor(whole, null)).toBe(made.text);
      expect(read.textFor(only("b"), null)).toBe(made.textFor(only("b"), null));
    }
  });

  it("that cannot match is skipped without parsing its payload", () => {
    const read = Line.stored(7, "no JSON at all", headersText(line(7, "a").headers));
    expect(read.textFor(only("b"), null)).toBeNull();
  });

  it("is translated to the dialect of the reader", () => {
    const shout: View = ({ Key }, json) => (Key === "a" ? json.toUpperCase() : json);
    const two = line(7, "a", "b");
    expect(two.textFor(all, shout)).toBe(two.text.replace(/\{.*?\}\}?(?=,\{)/, (json) => json.toUpperCase()));
    expect(two.textFor(only("b"), shout)).toBe(two.textFor(only("b"), null));
  });
});

it("fills null indexes one level deep and does not modify its input", () => {
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
