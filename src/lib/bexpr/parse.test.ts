import { describe, expect, it } from "vitest";
import { parse } from "./parse.ts";

const refusal = (text: string): string => {
  try {
    return `taken: ${JSON.stringify(parse(text))}`;
  } catch (failure) {
    return (failure as Error).message;
  }
};

const equal = (path: readonly string[], value: string) => ({ is: "equal", selector: path, value });

describe("an expression", () => {
  it("keeps its operands in order", () => {
    expect(parse("a == 1 and b == 2 and not c == 3 or d == 4")).toEqual({
      is: "or",
      terms: [
        {
          is: "and",
          terms: [equal(["a"], "1"), equal(["b"], "2"), { is: "not", term: equal(["c"], "3") }],
        },
        equal(["d"], "4"),
      ],
    });
  });

  it("accepts keywords as names where a name is allowed", () => {
    expect(parse("not == 5")).toEqual(equal(["not"], "5"));
    expect(parse("any == all")).toEqual(equal(["any"], "all"));
    expect(parse("or == and")).toEqual(equal(["or"], "and"));
    expect(parse("not in in")).toEqual({ is: "contains", selector: ["in"], value: "not" });
    expect(parse("not not in in")).toEqual({
      is: "not",
      term: { is: "contains", selector: ["in"], value: "not" },
    });
    expect(parse("a not in b")).toEqual({ is: "not", term: { is: "contains", selector: ["b"], value: "a" } });
    expect(parse("any in is")).toEqual({ is: "contains", selector: ["is"], value: "any" });
    expect(parse("inside == nothing")).toEqual(equal(["inside"], "nothing"));
  });

  it.each([
    ["a.b.c", ["a", "b", "c"]],
    ["a.0.b", ["a", "0", "b"]],
    ['a["b c"]', ["a", "b c"]],
    ['a[ "b" ].c', ["a", "b", "c"]],
    ["a[`b`][`c`]", ["a", "b", "c"]],
    ["a/b_c9", ["a/b_c9"]],
    ['"/a/b"', ["a", "b"]],
    ['"/a/é-1_.~0~1:|"', ["a", "é-1_.~/:|"]],
    ['""', []],
  ])("accepts the selector %s", (written, path) => {
    expect(parse(`${written} == x`)).toEqual(equal(path, "x"));
    expect(parse(`x in ${written}`)).toEqual({ is: "contains", selector: path, value: "x" });
  });

  it.each([
    ["x", "x"],
    ["x.y", "x.y"],
    ["-1", "-1"],
    ["0", "0"],
    ["1.50", "1.50"],
    ['"a b"', "a b"],
    ['"a\\tb\\\\\\u00e9\\x41\\103\\U0001f600"', "a\tb\\éAC\u{1f600}"],
    ['"\\xc3\\xa9"', "é"],
    ['`a\\tb\n"`', 'a\\tb\n"'],
    ['"/a/b"', "/a/b"],
    ['""', ""],
    ["``", ""],
  ])("accepts the operator %s", (written, value) => {
    for (const text of [`a == ${written}`, `a==${written}`, `(a != ${written})`, `(a != ${written} )`]) {
      expect(JSON.stringify(parse(text))).toContain(JSON.stringify(value));
    }
  });

  it("may be long", () => {
    const terms = Array.from({ length: 500 }, (_, n) => `a == ${n}`);
    expect(parse(terms.join(" or "))).toMatchObject({ is: "or", terms: { length: 500 } });
    expect(parse(`${"not ".repeat(1_000)}a == 1`)).toEqual(equal(["a"], "1"));
  });
});

describe("an invalid expression returns an error with the position when", () => {
  it.each([
    ["a string does not end", 'Name == "x', '1:9 (8): rule "string": Unterminated string literal'],
    ["a raw string does not end", "Name == `x", '1:9 (8): rule "string": Unterminated string literal'],
    ["a string has an unknown escape", 'Name == "\\q"', '1:9 (8): rule "string": invalid syntax'],
    ["a string has a lone surrogate", 'Name == "\\ud800"', '1:9 (8): rule "string": invalid syntax'],
    ["a string has a byte too large", 'Name == "\\777"', '1:9 (8): rule "string": invalid syntax'],
    ["a string breaks off in its escape", 'Name == "\\"', '1:9 (8): rule "string": invalid syntax'],
    ["a string holds a line's end", 'Name == "a\nb"', '1:9 (8): rule "string": invalid syntax'],
    ["a number continues with other characters", "Name == 1.2.3", '1:9 (8): rule "number": Invalid number literal'],
    ["a number starts with a zero", "Name == 007", '1:9 (8): rule "number": Invalid number literal'],
    ["a name starts with a digit", "1a == 1", '1:1 (0): rule "number": Invalid number literal'],
    ["a number ends at a brace", "any a as b { b == 1}", '1:19 (18): rule "number": Invalid number literal'],
    ["a parenthesis is not closed", "(a == 1", '1:1 (0): rule "grouping": Unmatched parentheses'],
    [
      "a parenthesis further in is not closed",
      "a == 1 or (b == 2",
      '1:11 (10): rule "grouping": Unmatched parentheses',
    ],
    ["an index is no string", "a[b] == 1", '1:3 (2): rule "index": Invalid index'],
    ["an index is not closed", 'a["b" == 1', '1:7 (6): rule "index": Unclosed index expression'],
    ["the collection is not a selector", "a in 5", '1:6 (5): rule "match": Invalid selector'],
    ["the collection is not a pointer", 'a in "b c"', '1:6 (5): rule "match": Invalid selector'],
    ["the left operand is not a selector", "5 == a", '1:1 (0): rule "match": Invalid selector'],
    ["two names are one", "any a as b, b { b == 1 }", '1:13 (12): rule "binding": the same name twice'],
    ["the right operand is missing", "a == ", '1:6 (5): no match found, expected: "\\"", "`", identifier or number'],
    ["there is no operator", "a", '1:2 (1): no match found, expected: "!=", ".", "==", "[" or whitespace'],
    ["a word has a dash", "a == my-vol", '1:8 (7): no match found, expected: ".", "[", EOF or whitespace'],
    ["there is no space before or", "(a == 1)or (b == 2)", "1:9 (8): no match found, expected: EOF or whitespace"],
    [
      "the place is beyond letters of two bytes",
      'a == "é" x',
      '1:10 (10): no match found, expected: "and", "or" or EOF',
    ],
    [
      "the error is on another line",
      "a == b and\n  )",
      '2:3 (13): no match found, expected: "(", "\\"", "`", "not", identifier or number',
    ],
  ])("%s: %s", (_because, text, message) => {
    expect(refusal(text)).toBe(message);
  });

  it.each([
    "",
    " ",
    "()",
    "not",
    "not(a == 1)",
    "(a == 1) or(b == 2)",
    "(a == 1)and (b == 2)",
    "a == 1 AND b == 2",
    "a = 1",
    "a === 1",
    "a > 1",
    "a is",
    "a is not",
    "a is emptyx",
    'a matches"x"',
    'a contains"x"',
    '"x"in a',
    "a == 1 and",
    "a == 1 and or b == 2",
    "a == 1 b == 2",
    "a == 1)",
    ".a == 1",
    "a. == 1",
    "_a == 1",
    "any a as b { b == 1 } and c == 2",
    "c == 2 and any a as b { b == 1 }",
    "not any a as b { b == 1 }",
    "any a as b { b == 1 } or c == 2",
    "any a as _ { b == 1 }",
    "any a as _, _ { b == 1 }",
    "any a as b b == 1",
    "any a as b { }",
    "any a { b == 1 }",
    "any a as b { b == c",
    "\ufeffa == 1",
    "a\u00a0== 1",
    "é == 1",
  ])("it violates the grammar: %s", (text) => {
    expect(refusal(text)).toMatch(/^\d+:\d+ \(\d+\): no match found, expected: /);
  });

  it("it is nested too deeply or too long", () => {
    for (const open of ["(", "( ", "any a as b { ", "not ("]) {
      expect(refusal(open.repeat(100))).toMatch(/nested deeper than 64/);
    }
    expect(refusal("(".repeat(8_192))).toMatch(/nested deeper than 64/);
    expect(refusal(`a == ${"x".repeat(8_192)}`)).toBe("longer than 8192 characters");
    expect(refusal("not ".repeat(2_048))).toMatch(/no match found/);
  });
});
