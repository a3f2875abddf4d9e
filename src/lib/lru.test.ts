import { expect, it } from "vitest";
import { Lru } from "./lru.ts";

it("drops the entry whose last use is the oldest", () => {
  const lru = new Lru<string, number>(2);
  lru.set("a", 1);
  lru.set("b", 2);
  expect(lru.get("a")).toBe(1);
  lru.set("c", 3);
  expect([lru.get("a"), lru.get("b"), lru.get("c"), lru.size]).toEqual([1, undefined, 3, 2]);
});

it("replaces a value without dropping another", () => {
  const lru = new Lru<string, number>(2);
  lru.set("a", 1);
  lru.set("b", 2);
  lru.set("b", 3);
  expect([lru.get("a"), lru.get("b"), lru.size]).toEqual([1, 3, 2]);
});
