import { describe, expect, it } from "vitest";
import { equalJson, isPlainObject, itemLengths, mergePatch, parseLossless } from "./json.ts";

const roundTrip = (text: string): string => JSON.stringify(parseLossless(text));

describe("parseLossless", () => {
  it.each([
    "9007199254740993",
    "-9223372036854775808",
    "123456789012345678901234567890",
    "1.10",
    "1.0",
    "-0",
    "-0.0",
    "0.1",
    "1e400",
    "-1E-400",
    "1E5",
    "1e+5",
    "100000000000000000000000",
    "3.141592653589793238462643383279",
  ])("returns the number %s verbatim, alone and nested", (number) => {
    expect(roundTrip(number)).toBe(number);
    expect(roundTrip(`{"a":[${number},{"b":${number}}]}`)).toBe(`{"a":[${number},{"b":${number}}]}`);
  });

  it("returns numbers that JavaScript represents exactly as plain numbers", () => {
    expect(parseLossless('{"a":12.5,"b":-3,"c":9007199254740991}')).toEqual({ a: 12.5, b: -3, c: 9007199254740991 });
  });

  it("returns numeric texts as texts", () => {
    expect(roundTrip('{"a":"1.10","b":"9007199254740993"}')).toBe('{"a":"1.10","b":"9007199254740993"}');
  });

  it("accepts names of object internals as keys", () => {
    const text = '{"__proto__":{"polluted":1.10},"constructor":1,"hasOwnProperty":null}';
    expect(roundTrip(text)).toBe(text);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("returns the last of duplicate keys, also with long numbers", () => {
    expect(roundTrip('{"a":9007199254740993,"a":2}')).toBe('{"a":2}');
    expect(roundTrip('{"a":2,"a":9007199254740993}')).toBe('{"a":9007199254740993}');
    expect(roundTrip('{"a":{"b":1.10},"a":{"b":2.20}}')).toBe('{"a":{"b":2.20}}');
  });

  it("accepts 128 levels and refuses 129; brackets in texts do not count", () => {
    expect(roundTrip("[".repeat(128) + "]".repeat(128))).toBe("[".repeat(128) + "]".repeat(128));
    expect(() => parseLossless("[".repeat(129) + "]".repeat(129))).toThrow("nested deeper than 128");
    expect(() => parseLossless(`{"a":${"[".repeat(200_000)}`)).toThrow("nested deeper than 128");
    expect(parseLossless(`["${"[".repeat(500)}","\\"[["]`)).toHaveLength(2);
  });

  it.each(["01", "+1", "1.", ".5", "0x1", "NaN", "Infinity", "1e", "--1"])("refuses %s, which is not JSON", (text) => {
    expect(() => parseLossless(text)).toThrow(SyntaxError);
  });
});

describe("isPlainObject", () => {
  it("is false for lists, null and verbatim numbers", () => {
    expect(isPlainObject(parseLossless('{"a":1}'))).toBe(true);
    for (const text of ["[]", "null", '"a"', "1", "9007199254740993"])
      expect(isPlainObject(parseLossless(text))).toBe(false);
  });
});

describe("mergePatch", () => {
  // The table of RFC 7396, appendix A.
  it.each([
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', "{}"],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"a":"foo"}', "null", "null"],
    ['{"a":"foo"}', '"bar"', '"bar"'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ["[1,2]", '{"a":"b","c":null}', '{"a":"b"}'],
    ["{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ])("%s patched with %s is %s", (target, patch, expected) => {
    expect(JSON.stringify(mergePatch(parseLossless(target), parseLossless(patch)))).toBe(expected);
  });

  it("keeps long numbers of both inputs", () => {
    const merged = mergePatch(parseLossless('{"a":9007199254740993,"b":1}'), parseLossless('{"b":1.10}'));
    expect(JSON.stringify(merged)).toBe('{"a":9007199254740993,"b":1.10}');
  });

  it("sets and removes a key named __proto__ without changing a prototype", () => {
    const set = mergePatch({}, parseLossless('{"__proto__":{"x":1}}'));
    expect(JSON.stringify(set)).toBe('{"__proto__":{"x":1}}');
    expect(JSON.stringify(mergePatch(set, parseLossless('{"__proto__":null}')))).toBe("{}");
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
  });
});

it.each([
  ['{"a":1,"b":[1,{"c":null}]}', '{"b":[1,{"c":null}],"a":1}', true],
  ["9007199254740993", "9007199254740993", true],
  ["9007199254740993", "9007199254740992", false],
  ["1.0", "1", false],
  ['{"a":1}', '{"a":1,"b":2}', false],
  ['{"a":null}', '{"b":null}', false],
  ["[1,2]", "[2,1]", false],
  ["[1]", '{"0":1}', false],
  ['"1"', "1", false],
  ['{"__proto__":1}', "{}", false],
])("%s equals %s: %s", (a, b, equal) => {
  expect(equalJson(parseLossless(a), parseLossless(b))).toBe(equal);
  expect(equalJson(parseLossless(b), parseLossless(a))).toBe(equal);
});

it.each([
  ["[]", []],
  ["[{}]", [2]],
  ['[1.0,"a,]",{"b":[1,2],"\\\\":"\\"}"}]', [3, 5, 22]],
])("the items of %s have the lengths of the text", (text, lengths) => {
  expect(itemLengths(text)).toEqual(lengths);
  let at = 1;
  for (const length of lengths) {
    expect(() => JSON.parse(text.slice(at, at + length))).not.toThrow();
    at += length + 1;
  }
});
