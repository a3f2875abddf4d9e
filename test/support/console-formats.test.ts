import { parseEnv } from "node:util";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { formatOf, formatted, parsed } from "../../console/src/lib/formats.ts";
import { formatted as byCommandLine } from "../../packages/cli/src/kv/formats.ts";

const PEM = "-----BEGIN KEY-----\nMC4CAQ\n-----END KEY-----\n";

describe("values as .env, JSON and YAML", () => {
  const data = {
    plain: "a/b:c@d",
    spaces: " two words ",
    single: "it's",
    pem: PEM,
    dollar: '$HOME "x" `y` \\n',
    empty: "",
    hash: "a #b",
    number: 5,
    list: ["a", { b: null }],
    flag: true,
  };

  it("are read back as they were, by other parsers, too", () => {
    expect(parsed("json", formatted("json", data))).toEqual(data);
    expect(parsed("yaml", formatted("yaml", data))).toEqual(data);
    expect(parse(formatted("yaml", data))).toEqual(data);
    const { number: _number, list: _list, flag: _flag, ...texts } = data;
    expect(parsed("env", formatted("env", texts))).toEqual(texts);
    expect(parseEnv(formatted("env", texts))).toEqual(texts);
    const asMap = new Map(Object.entries(texts).map(([key, value]) => [key, JSON.stringify(value)]));
    expect(formatted("env", texts)).toBe(byCommandLine("dotenv", asMap));
  });

  it.each(["no", "null", "12", "a b", "é", "-", "", "true", "a:"])(
    "writes the key %j so that YAML reads a text",
    (key) => {
      const text = formatted("yaml", { [key]: "1" });
      expect(parse(text)).toEqual({ [key]: "1" });
      expect(parsed("yaml", text)).toEqual({ [key]: "1" });
    },
  );

  it.each([
    "A=1\nB=two words # comment\n\n# note\nexport C='x y'\n",
    'A="one\\ntwo"\nB="x\ny"\nC=`q"\'`\n D = d \r\nE=\r\nF=#no',
    "A=a=b=c\nA.b-c=1\nB=last",
  ])("reads %j as Node reads it", (text) => {
    expect(parsed("env", text)).toEqual({ ...parseEnv(text) });
  });

  it.each([
    "---\na: 1\nb: two words # comment\n'c d': 'it''s'\n\"e\": \"x\\ny\"\n# note\n",
    "key: |\n  one\n    two\n\n  three\nlast: x",
    "key: |-\n  one\n  two\n\n\nlast: x\n",
    "key: |+\n  one\n\nlast: x\n",
    "key: |\n  only",
    "a: 2026-01-01\nb: 10.0.0.1\nc: no\nd: https://x.example/y?z=1#f\ne: 1h\nf: a-b\ng: null\nh:\ni: false\n",
    'a: {"b": [1, "x"]}\nc: [1, 2]\nd: 1.5\n',
    "a b: c\r\nd.e/f: g\r\n",
  ])("reads %j as a parser of YAML reads it", (text) => {
    expect(parsed("yaml", text)).toEqual(parse(text));
  });

  it.each([
    ["env", "A=1\nnothing", "Line 2 must be KEY=VALUE."],
    ["env", 'A="open\nB=1', "Line 1 must have one pair of quotes."],
    ["env", 'A=1\nexport H="q\\"canary"', "Line 2 must have one pair of quotes."],
    ["env", "A='x\nA=y'\nB=1\nA=canary", "Line 4 has a key of an earlier line."],
    ["yaml", 'a: 1\nb: 2\n"a": canary', "Line 3 has a key of an earlier line."],
    ["yaml", "a: 1\nb:\n  c: canary", "Line 3 must be KEY: VALUE."],
    ["yaml", "a:\n- canary", "Line 2 must be KEY: VALUE."],
    ["yaml", "a: &x canary", "Line 1 cannot be read."],
    ["yaml", "a: 0x1F", "Line 1 cannot be read."],
    ["yaml", "a: >\n  folded", "Line 1 cannot be read."],
    ["yaml", "a: b: canary", "Line 1 cannot be read."],
    ["yaml", '"a: canary', "Line 1 must be KEY: VALUE."],
    ["json", '["canary"]', "The JSON must be an object."],
    ["json", "{canary", "The JSON must be an object."],
  ] as const)("refuses %s %j without its values", (format, text, message) => {
    const read = () => parsed(format, text);
    expect(read).toThrow(message);
    expect(read).not.toThrow("canary");
  });

  it("names a key that .env cannot hold", () => {
    expect(() => formatted("env", { "a-b": "1" })).toThrow("a-b cannot be in a .env file");
    expect(() => formatted("env", { A: `'"$` })).toThrow("A cannot be in a .env file");
  });

  it("takes the format from the name of a file", () => {
    expect([".env", "a.env.local", "a.JSON", "b.yml", "b.yaml"].map(formatOf)).toEqual([
      "env",
      "env",
      "json",
      "yaml",
      "yaml",
    ]);
  });
});
