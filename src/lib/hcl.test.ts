import { describe, expect, it } from "vitest";
import { textSteps } from "../../test/text-steps.ts";
import { type HclObject, type HclValue, MAX_DEPTH, MAX_DOCUMENT_BYTES, parseHcl } from "./hcl.ts";

function parse(text: string): HclObject {
  const result = parseHcl(text);
  if (!result.ok) throw new Error(`${result.line}:${result.column} ${result.message}`);
  return result.document;
}

function refusal(text: string) {
  const result = parseHcl(text);
  if (result.ok) throw new Error(`accepted: ${text.slice(0, 80)}`);
  return result;
}

/** The tree in short: `["=name", value]` for attributes, `["name", "label", […]]` for blocks. */
function shape(value: HclValue): unknown {
  if (Array.isArray(value)) return value.map(shape);
  if (value === null || typeof value !== "object") return value;
  return value.members.map((member) => {
    if (member.assigned) return [`=${member.name}`, shape(member.value)];
    return [member.name, ...(member.label === undefined ? [] : [member.label]), shape(member.value)];
  });
}

const attribute = (written: string) => parse(`a = ${written}`).members[0]?.value;

describe("an HCL document", () => {
  it.each([
    ["an empty text", "", []],
    ["only comments and space", "# one\n// two\n/* three\n */ \t\r\n", []],
    ["a byte order mark", "\uFEFFa = 1", [["=a", 1]]],
    ["a block without a label", `node { policy = "read" }`, [["node", [["=policy", "read"]]]]],
    ["a block with a quoted label", `path "kv/*" { }`, [["path", "kv/*", []]]],
    ["a block with a bare label", `namespace default { }`, [["namespace", "default", []]]],
    ["a brace on the next line", `path "a"\n{\n}`, [["path", "a", []]]],
    ["nested blocks", `a "x" { b { c "y" { } } }`, [["a", "x", [["b", [["c", "y", []]]]]]]],
    ["a quoted key", `"*" = []`, [["=*", []]]],
    [
      "attributes on one line",
      `a = 1 b = "c"`,
      [
        ["=a", 1],
        ["=b", "c"],
      ],
    ],
    [
      "commas between attributes",
      `a { x = 1, y = 2, }`,
      [
        [
          "a",
          [
            ["=x", 1],
            ["=y", 2],
          ],
        ],
      ],
    ],
    ["an object as a value", `a = { b = [1] }`, [["=a", [["=b", [1]]]]]],
    ["a trailing comma in a list", `a = ["x", "y",\n]`, [["=a", ["x", "y"]]]],
    ["a comment inside a list", `a = [1, # one\n 2 /* two */, // end\n]`, [["=a", [1, 2]]]],
    ["windows line ends", `a {\r\n  b = 1\r\n}\r\n`, [["a", [["=b", 1]]]]],
    ["comment signs inside a text", `a = "# // /* */"`, [["=a", "# // /* */"]]],
  ])("reads %s", (_, text, expected) => {
    expect(shape(parse(text))).toEqual(expected);
  });

  it("keeps repeated blocks, in their order", () => {
    expect(shape(parse(`p "a" { n = 1 } p "b" { } p "a" { n = 2 }`))).toEqual([
      ["p", "a", [["=n", 1]]],
      ["p", "b", []],
      ["p", "a", [["=n", 2]]],
    ]);
  });

  it("gives each member the line it begins on", () => {
    const document = parse(`# first\na = 1\n\nb "c" {\n  d = [\n 1 ]\n  e = <<X\nt\nX\n  f = 2\n}\n`);
    const inner = document.members[1]?.value as HclObject;
    expect(document.members.map(({ line }) => line)).toEqual([2, 4]);
    expect(inner.members.map(({ name, line }) => [name, line])).toEqual([
      ["d", 5],
      ["e", 7],
      ["f", 10],
    ]);
  });

  it.each([
    ["true", true],
    ["false", false],
    ["0", 0],
    ["-12", -12],
    ["1.5", 1.5],
    ["2e3", 2000],
    ["-1.25E-2", -0.0125],
    ["0x1F", 31],
    ["[]", []],
    [`[[1, "x"], true]`, [[1, "x"], true]],
    [`"plain é 世界 😀"`, "plain é 世界 😀"],
    [String.raw`"\"\\\n\t\r\a\b\f\v"`, '"\\\n\t\r\u0007\b\f\v'],
    [String.raw`"\u00e9\U0001F600\x41\101"`, "é😀AA"],
    [String.raw`"\ud83d\ude00"`, "😀"],
    [`"$\{var.x} stays"`, `$\{var.x} stays`],
    ["<<EOF\none\n  two\nEOF", "one\n  two\n"],
    ["<<EOF\nEOF", ""],
    ["<<EOF\r\none\r\nEOF\r\n", "one\n"],
    ["<<-EOF\n    one\n      two\n    EOF", "one\n  two\n"],
    ["<<-EOF\n  one\n    two\n    EOF", "  one\n    two\n"],
    ["<<EOF\nEOFX\nEOF", "EOFX\n"],
  ])("reads the value %j", (written, expected) => {
    expect(attribute(written)).toEqual(expected);
  });
});

describe("a JSON document", () => {
  it("gives every member as an attribute, in order, with its line", () => {
    const document = parse(`{"path": {"kv/*": {"capabilities": ["read"]}},\n "node": [{"policy": "read"}], "x": null}`);
    expect(shape(document)).toEqual([
      ["=path", [["=kv/*", [["=capabilities", ["read"]]]]]],
      ["=node", [[["=policy", "read"]]]],
      ["=x", null],
    ]);
    expect(document.members.map(({ line }) => line)).toEqual([1, 2, 2]);
  });

  it.each([
    ["a repeated key", `{"a": {"b": 1, "b": 2}}`, 1, 16],
    ["a missing comma", `{"a": 1\n "b": 2}`, 2, 2],
    ["= for :", `{"a" = 1}`, 1, 6],
    ["a block", `{"a" {}}`, 1, 6],
    ["something after its end", `{}\n{}`, 2, 1],
    ["no end", `{"a": 1`, 1, 1],
    ["a trailing comma", `{"a": 1,}`, 1, 1],
    ["a comment", `{"a": 1 /* one */}`, 1, 1],
    ["an unquoted key", `{a: 1}`, 1, 1],
    ["an escape that only HCL has", String.raw`{"a": "\x41"}`, 1, 1],
  ])("is refused for %s", (_, text, line, column) => {
    expect(refusal(text)).toMatchObject({ line, column });
  });
});

describe("a document is refused, with line and column, for", () => {
  it.each([
    ["a repeated attribute", `a = 1\na = 2`, 2, 1, /duplicate attribute "a"/],
    ["an attribute with a block's name", `a { }\n  a = 2`, 2, 3, /duplicate attribute "a"/],
    ["a block with an attribute's name", `a = 2\na { }`, 2, 1, /duplicate attribute "a"/],
    ["two labels", `a "b" "c" { }`, 1, 7, /at most one/],
    ["an attribute with a label", `a "b" = 1`, 1, 7, /expected "\{"/],
    ["a name alone", `a`, 1, 2, /after "a"/],
    ["an unquoted text", `a = read`, 1, 5, /"read" is not a value/],
    ["null, which HCL does not have", `a = null`, 1, 5, /"null" is not a value/],
    ["a missing value", `a =\n`, 2, 1, /expected a value, found the end/],
    ["a missing comma in a list", `a = [1 2]`, 1, 8, /expected "," or "\]"/],
    ["two commas", `a = [1,,2]`, 1, 8, /expected a value/],
    ["a brace too many", `a { } }`, 1, 7, /expected a name, found "\}"/],
    ["a block that is not closed", `a {\n b = 1\n`, 1, 3, /never closed/],
    ["a list that is not closed", `a = [1,`, 1, 5, /never closed/],
    ["a text that is not closed", `a = "x`, 1, 5, /not closed/],
    ["a line break in a text", `a = "x\ny"`, 1, 7, /line break or control/],
    ["a control sign in a text", `a = "x\u0001"`, 1, 7, /line break or control/],
    ["an unknown escape", String.raw`a = "\q"`, 1, 6, /unknown escape/],
    ["a short escape", String.raw`a = "\u12"`, 1, 6, /unknown escape/],
    ["an escape past the last character", String.raw`a = "\U00110000"`, 1, 6, /no such character/],
    ["half a surrogate pair", String.raw`a = "\ud83d"`, 1, 5, /not valid Unicode/],
    ["a raw half of a surrogate pair", `a = "\ud83d"`, 1, 5, /not valid Unicode/],
    ["a comment that is not closed", `a = 1 /* b`, 1, 7, /comment is not closed/],
    ["a heredoc that is not closed", `a = <<X\ny\n`, 1, 5, /closed by a line with X/],
    ["a heredoc without a marker", `a = <<\n`, 1, 5, /heredoc begins/],
    ["a number with a letter", `a = 12k`, 1, 5, /expected a value/],
    ["a number with a leading zero", `a = 010`, 1, 5, /expected a value/],
    ["a number past all bounds", `a = 1e999`, 1, 5, /too large/],
    ["a JSON list", `[1]`, 1, 1, /expected a name, found "\["/],
    ["a column after wide characters", `a = "😀é" !`, 1, 10, /found "!"/],
  ])("%s", (_, text, line, column, message) => {
    const refused = refusal(text);
    expect(refused.message).toMatch(message);
    expect([refused.line, refused.column]).toEqual([line, column]);
  });

  it("a size above the limit, counted in bytes", () => {
    const fits = `#${"é".repeat((MAX_DOCUMENT_BYTES - 2) / 2)}`;
    expect(parse(fits).members).toEqual([]);
    expect(refusal(`${fits}é`).message).toMatch(/larger than 1048576 bytes/);
    expect(refusal("#".repeat(MAX_DOCUMENT_BYTES + 1)).message).toMatch(/larger than/);
  });

  it.each([
    ["blocks", "a {", "}"],
    ["lists", "[", "]"],
    ["JSON objects", `{"a":`, "}"],
  ])("%s nested deeper than the limit", (kind, open, close) => {
    const nest = (depth: number) => {
      const inner = kind === "JSON objects" ? "1" : "";
      const text = open.repeat(depth) + inner + close.repeat(depth);
      return kind === "lists" ? `a = ${text}` : text;
    };
    expect(parseHcl(nest(MAX_DEPTH)).ok).toBe(true);
    expect(refusal(nest(MAX_DEPTH + 1)).message).toMatch(/deeper than 32/);
    expect(refusal(open.repeat(100_000)).ok).toBe(false);
  });
});

it("counts nesting, not the number of adjacent blocks and lists", () => {
  expect(parse("a { b = [[], []] }\n".repeat(100)).members).toHaveLength(100);
  expect(parse(`a = [${"[[]],".repeat(100)}]`).members).toHaveLength(1);
});

describe("hostile documents", () => {
  it("may use names of object internals", () => {
    expect(shape(parse(`__proto__ = 1\nconstructor = 2\ntoString "__proto__" { }`))).toEqual([
      ["=__proto__", 1],
      ["=constructor", 2],
      ["toString", "__proto__", []],
    ]);
    expect(shape(parse(`{"__proto__": {"polluted": true}}`))).toEqual([["=__proto__", [["=polluted", true]]]]);
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    expect(refusal(`__proto__ = 1\n__proto__ = 2`).message).toMatch(/duplicate/);
  });

  it("are quoted in messages up to a short length", () => {
    expect(refusal(`a = ${"x".repeat(500_000)}`).message.length).toBeLessThan(200);
  });

  it.each([
    ["one long text", `a = "${"x".repeat(1_000_000)}"`],
    ["many escapes", `a = "${"\\n".repeat(500_000)}"`],
    ["many lines", "\n".repeat(1_000_000)],
    ["many comments", "#\n/**/".repeat(150_000)],
    ["many blocks", `p "x" { }\n`.repeat(90_000)],
    ["a long bad number", `a = ${"1".repeat(300_000)}.${"1".repeat(300_000)}x`],
    ["a heredoc that never ends", `a = <<X\n${"Y\n".repeat(400_000)}`],
  ])("of the form %s are parsed in linear time", (_, text) => {
    expect(textSteps(() => parseHcl(text)).steps).toBeLessThan(20 * text.length);
  });
});
