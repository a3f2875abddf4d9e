import { describe, expect, it } from "vitest";
import { type Operation, verdictOn } from "./linearizability.ts";

const write = (value: number, call: number, end: number): Operation => ({ kind: "write", value, call, end });
const read = (value: number, call: number, end: number): Operation => ({ kind: "read", value, call, end });

describe("verdictOn", () => {
  it.each<[title: string, history: Operation[], expected: boolean]>([
    ["nothing", [], true],
    ["a read of the first value", [read(0, 1, 2)], true],
    ["a read of a value that was never written", [read(7, 1, 2)], false],
    ["a read behind a write", [write(1, 1, 2), read(1, 3, 4)], true],
    ["a read of the old value behind a write", [write(1, 1, 2), read(0, 3, 4)], false],
    ["both values during a write", [write(1, 1, 9), read(0, 2, 3), read(1, 4, 5)], true],
    ["the new value before the old one during a write", [write(1, 1, 9), read(1, 2, 3), read(0, 4, 5)], false],
    ["new and old by reads that overlap", [write(1, 1, 9), read(1, 2, 5), read(0, 4, 6)], true],
    ["two writes in either order", [write(1, 1, 9), write(2, 1, 9), read(2, 10, 11), read(2, 12, 13)], true],
    [
      "two readers that see two writes in two orders",
      [write(1, 1, 9), write(2, 1, 9), read(1, 2, 3), read(2, 4, 5), read(1, 6, 7)],
      false,
    ],
    ["a write without an outcome that took effect", [write(1, 1, Infinity), read(0, 2, 3), read(1, 50, 51)], true],
    ["a write without an outcome that did not", [write(1, 1, Infinity), read(0, 50, 51)], true],
    ["a write without an outcome that is undone", [write(1, 1, Infinity), read(1, 2, 3), read(0, 4, 5)], false],
    ["a value before its write was called", [read(1, 1, 2), write(1, 3, 4)], false],
  ])("%s", (_title, history, expected) => {
    expect(verdictOn(history, 0)).toBe(expected ? "linearizable" : "broken");
  });

  it("agrees with a search through all orders", () => {
    let state = 7;
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((state / 2 ** 31) * below);
    };
    const seen = { true: 0, false: 0 };
    for (let round = 0; round < 1_000; round++) {
      const history = Array.from({ length: 5 }, () => {
        const call = random(12);
        const end = call + 1 + random(6);
        return random(2) === 0 ? write(1 + random(2), call, end) : read(random(3), call, end);
      });
      const expected = permutations(history).some((order) => isLegal(order));
      expect(verdictOn(history, 0), JSON.stringify(history)).toBe(expected ? "linearizable" : "broken");
      seen[`${expected}`] += 1;
    }
    expect(Math.min(seen.true, seen.false)).toBeGreaterThan(100);
  });
});

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, index) => permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest]));
}

function isLegal(order: readonly Operation[]): boolean {
  let value = 0;
  return order.every((operation, index) => {
    if (order.slice(index + 1).some((later) => later.end < operation.call)) return false;
    if (operation.kind === "write") value = operation.value;
    return operation.kind === "write" || operation.value === value;
  });
}
