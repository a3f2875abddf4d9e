import { describe, expect, it } from "vitest";
import { canonicalJson, documentsOf } from "./json.ts";

describe("canonicalJson", () => {
  it("is the same for other orders, spaces and escapes, and keeps the digits of numbers", () => {
    const text = canonicalJson('{ "b": [1.50, {"y": 12345678901234567890, "x": "\\u003ca\\u003e"}], "a": null }');
    expect(text).toBe('{"a":null,"b":[1.50,{"x":"<a>","y":12345678901234567890}]}');
    expect(canonicalJson(text)).toBe(text);
  });

  it("differs for another number, also beyond 2^53, and for another member", () => {
    expect(canonicalJson("[9007199254740993]")).not.toBe(canonicalJson("[9007199254740992]"));
    expect(canonicalJson('{"__proto__":1}')).not.toBe(canonicalJson("{}"));
    expect(canonicalJson('{"a":"1"}')).not.toBe(canonicalJson('{"a":1}'));
  });
});

describe("documentsOf", () => {
  it("splits what follows each other, whatever strings contain", () => {
    expect(documentsOf('{"a":"}{\\""}\n[1,\n[2]]{"b":{}}')).toEqual(['{"a":"}{\\""}', "[1,\n[2]]", '{"b":{}}']);
    expect(documentsOf("")).toEqual([]);
  });

  it.each(['{"a":1', '{"a" 1}', '{"a":"1}'])("refuses %s", (text) => {
    expect(() => documentsOf(text)).toThrow(SyntaxError);
  });
});
