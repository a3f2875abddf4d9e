import { describe, expect, it } from "vitest";
import { elementsOf, membersOf, streamLine } from "./json-text.ts";

describe("elementsOf", () => {
  it.each([
    ["[]", []],
    [" [ ] ", []],
    ["null", []],
    ["[1,2]", ["1", "2"]],
    ['[ {"a":[1,{"b":"]"}]} , "x,\\"y" ]', ['{"a":[1,{"b":"]"}]}', '"x,\\"y"']],
    ['["\\\\",1]', ['"\\\\"', "1"]],
    ["[1795327689311953341]", ["1795327689311953341"]],
  ])("of %s", (text, elements) => expect(elementsOf(text)).toEqual(elements));

  it.each(["{}", "", "[1", '["a'])("rejects %j", (text) => expect(() => elementsOf(text)).toThrow(SyntaxError));
});

it("membersOf returns the texts of members by their decoded names", () => {
  expect([...membersOf('{ "a" : [1, 2] , "\\u0062":{"c":1e2}, "d":"}" }')]).toEqual([
    ["a", "[1, 2]"],
    ["b", '{"c":1e2}'],
    ["d", '"}"'],
  ]);
});

describe("streamLine", () => {
  it.each(["{}", '{"Index":7,"Events":[]}', '{"Index":7,"Events":null}'])("%s is a heartbeat", (text) =>
    expect(streamLine(text)).toBeNull(),
  );

  it("has the index and the texts of events, in either order of members", () => {
    const line = { index: 7, events: ['{"a":1795327689311953341}'] };
    expect(streamLine('{"Events":[{"a":1795327689311953341}],"Index":7}')).toEqual(line);
    expect(streamLine('{"Index":7,"Events":[{"a":1795327689311953341}]}')).toEqual(line);
  });
});
