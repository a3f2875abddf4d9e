import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../test/crash/random.ts";
import { cutArray } from "./report-items.ts";

const random = randomFrom(15);
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;

function randomJson(depth: number): unknown {
  if (depth === 0) return pick([0, -1.5, true, null, "", "]", '"', "\\", '\\"', '{"Events":[', "é,\n"]);
  const members = Array.from({ length: Math.floor(random() * 4) }, () => randomJson(depth - 1));
  return random() < 0.5
    ? members
    : Object.fromEntries(members.map((member) => [pick(["a", "Events", '"]', ","]), member]));
}

describe("cutArray", () => {
  it("splits arrays of random JSON into their elements", () => {
    for (let round = 0; round < 500; round++) {
      const elements = Array.from({ length: round % 5 }, () => randomJson(3));
      const indent = pick([0, 1, 3]);
      const alone = cutArray(JSON.stringify(elements, null, indent), "Events");
      expect(alone?.elements.map((text) => JSON.parse(text))).toEqual(elements);
      expect(JSON.parse(alone?.shell ?? "")).toEqual([]);
      const line = { Other: { Events: [1, 2] }, Index: round, Events: elements, Last: randomJson(2) };
      const member = cutArray(JSON.stringify(line, null, indent), "Events");
      expect(member?.elements.map((text) => JSON.parse(text))).toEqual(elements);
      expect(JSON.parse(member?.shell ?? "")).toEqual({ ...line, Events: [] });
    }
  });

  it.each([
    "",
    "{}",
    '{"Events":{}}',
    '{"A":[1]}',
    '{"A":{"Events":[1]}}',
    "[",
    "[1",
    '["]',
    "[{]",
    "[1}",
    '{"Events":[1',
  ])("finds no element in %s", (text) => expect(cutArray(text, "Events")).toBeNull());

  it.each([
    ["[,]", ["", ""]],
    ["[1,]", ["1", ""]],
    ["[1 2]", ["1 2"]],
    ["[ ]", []],
  ])("leaves errors in %s to the parser of elements", (text, elements) =>
    expect(cutArray(text, "Events")?.elements).toEqual(elements),
  );

  it("keeps the text after the array", () =>
    expect(cutArray('{"Events":[1],"Error":2}x', "Events")?.shell).toBe('{"Events":[],"Error":2}x'));
});
