import { expect, it } from "vitest";
import { only } from "./only.ts";
import { textBefore } from "./text-before.ts";

it.each([
  ["a/b/c", "a"],
  ["a", "a"],
  ["/a", ""],
  ["", ""],
])("takes the text of %j before the first slash", (text, expected) => {
  expect(textBefore(text, "/")).toBe(expected);
});

it("takes the element of a list of one", () => {
  expect([only([]), only(["a"]), only(["a", "b"])]).toEqual([undefined, "a", undefined]);
});
