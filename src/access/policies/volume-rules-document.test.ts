import { describe, expect, it } from "vitest";
import { parsePolicy } from "./policy-parser.ts";

const read = (text: string) => {
  const result = parsePolicy(text);
  if (!result.ok) throw new Error(result.message);
  return result.policy.volumeRules;
};

const WHOLE = {
  name: "small",
  enforcement: "soft-mandatory",
  namespaces: ["default", "prod-*"],
  plugins: ["mkdir", "zfs"],
  namePattern: "^[a-z-]+$",
  maxCapacity: 10 * 1024 ** 3,
  nodePools: ["gpu"],
};

describe("a volume rule", () => {
  it("is a block with a name", () => {
    expect(
      read(`
        volume_rule "small" {
          namespaces   = ["default", "prod-*"]
          plugins      = ["mkdir", "zfs"]
          name_pattern = "^[a-z-]+$"
          max_capacity = "10GiB"
          node_pools   = ["gpu"]
          enforcement  = "soft-mandatory"
        }`),
    ).toEqual([WHOLE]);
  });

  it("is a member of a JSON document", () => {
    const small = {
      namespaces: ["default", "prod-*"],
      plugins: ["mkdir", "zfs"],
      name_pattern: "^[a-z-]+$",
      max_capacity: 10737418240,
      node_pools: ["gpu"],
      enforcement: "soft-mandatory",
    };
    expect(read(JSON.stringify({ volume_rule: { small } }))).toEqual([WHOLE]);
    expect(read(JSON.stringify({ volume_rule: [{ small }] }))).toEqual([WHOLE]);
  });

  it("contains only the given requirements", () => {
    expect(read(`volume_rule "a" { max_capacity = 1 enforcement = "advisory" }`)).toEqual([
      { name: "a", enforcement: "advisory", maxCapacity: 1 },
    ]);
  });

  it("may follow others and rules of other kinds", () => {
    const text = `volume_rule "a" { plugins = ["x"] enforcement = "advisory" }
      volume_rule "b" { plugins = ["y"] enforcement = "advisory" }
      namespace "default" { policy = "read" }
      path "secret/*" { capabilities = ["read"] }`;
    expect(read(text)?.map(({ name }) => name)).toEqual(["a", "b"]);
    const parsed = parsePolicy(text);
    expect(parsed.ok && [parsed.policy.cluster.namespaces.length, parsed.policy.paths.length]).toEqual([1, 1]);
  });

  it("is absent from a document without one", () => {
    expect(read(`node { policy = "read" }`)).toBeUndefined();
  });

  it.each<[string, number]>([
    ["1", 1],
    ["512B", 512],
    ["3 KB", 3_000],
    ["3KiB", 3_072],
    ["500MB", 500_000_000],
    ["1 MiB", 1_048_576],
    ["2GB", 2_000_000_000],
    ["1TiB", 2 ** 40],
    ["7PiB", 7 * 2 ** 50],
    ["9007199254740991", Number.MAX_SAFE_INTEGER],
  ])("accepts %s as a size", (size, bytes) => {
    expect(read(`volume_rule "a" { max_capacity = "${size}" enforcement = "advisory" }`)?.[0]?.maxCapacity).toBe(bytes);
  });
});

const rule = (members: string) => `volume_rule "a" {\n${members}\nenforcement = "advisory"\n}`;
const list = (name: string, of: readonly string[]) => rule(`${name} = ${JSON.stringify(of)}`);
const SIZE = /max_capacity of volume_rule "a": must be a number of bytes from 1 to 2\^53 - 1, or a text such as 10GiB/;

describe("a refusal of a volume rule names the field, the rule and the line", () => {
  it.each<[what: string, document: string, says: RegExp]>([
    ["without a name", `volume_rule { plugins = ["x"] }`, /Invalid volume_rule name: "" must be 1 to 128 letters/],
    ["with an empty name", `volume_rule "" { plugins = ["x"] }`, /Invalid volume_rule name: "" must be/],
    ["with a star in its name", `volume_rule "a*" { plugins = ["x"] }`, /Invalid volume_rule name: "a\*" must be/],
    ["with a long name", `volume_rule "${"x".repeat(129)}" { }`, /Invalid volume_rule name: /],
    ["as a text", `volume_rule = "a"`, /"volume_rule" must be a block \(line 1\)/],
    ["as a list of texts", `{"volume_rule": ["a"]}`, /"volume_rule" must be a block/],
    ["as a nameless block of JSON", `{"volume_rule": {"plugins": ["x"]}}`, /"plugins" must be a block/],
    ["with a number for a block", `{"volume_rule": {"a": 1}}`, /"a" must be a block/],
    [
      "twice under one name",
      `${list("plugins", ["x"])}\n${list("plugins", ["y"])}`,
      /volume_rule "a" stands twice \(line 5\)/,
    ],
    ["with an unknown key", rule(`plugin = ["x"]`), /"plugin" is not known in volume_rule "a" \(line 2\)/],
    ["with a policy word", rule(`policy = "deny"`), /"policy" is not known in volume_rule "a"/],
    ["without requirements", rule(""), /volume_rule "a" asks for nothing: give it one of plugins, name_pattern/],
    ["with namespaces only", list("namespaces", ["default"]), /volume_rule "a" asks for nothing/],
    [
      "without an enforcement",
      `volume_rule "a" { plugins = ["x"] }`,
      /enforcement of volume_rule "a": must be one of advisory, soft-mandatory, hard-mandatory/,
    ],
    [
      "with an unknown enforcement",
      `volume_rule "a" {\n plugins = ["x"]\n enforcement = "hard" }`,
      /enforcement of volume_rule "a": must be one of .* \(line 3\)/,
    ],
    ["with an empty enforcement", `volume_rule "a" { plugins = ["x"] enforcement = "" }`, /must be one of advisory/],
    [
      "with enforcement as a flag",
      `volume_rule "a" { plugins = ["x"] enforcement = true }`,
      /"enforcement" must be a text/,
    ],
    [
      "with enforcement as a list",
      `volume_rule "a" { plugins = ["x"] enforcement = ["advisory"] }`,
      /"enforcement" must be a text/,
    ],
    [
      "with no plugins in the list",
      list("plugins", []),
      /plugins of volume_rule "a": must have 1 to 100 entries \(line 2\)/,
    ],
    ["with a text for the plugins", rule(`plugins = "mkdir"`), /"plugins" must be a list of texts/],
    ["with a number among the plugins", rule("plugins = [1]"), /"plugins" must be a list of texts/],
    [
      "with a glob for a plugin",
      list("plugins", ["mk*"]),
      /plugins of volume_rule "a": "mk\*" must be 1 to 128 letters/,
    ],
    ["with a path for a plugin", list("plugins", ["../x"]), /plugins of volume_rule "a": "\.\.\/x" must be/],
    ["with an empty plugin", list("plugins", [""]), /plugins of volume_rule "a": "" must be/],
    [
      "with too many plugins",
      list(
        "plugins",
        Array.from({ length: 101 }, (_, at) => `p${at}`),
      ),
      /must have 1 to 100 entries/,
    ],
    [
      "with a namespace that cannot be",
      `${rule(`plugins = ["x"]\nnamespaces = ["a b"]`)}`,
      /namespaces of volume_rule "a": "a b" must be/,
    ],
    [
      "with no namespaces in the list",
      `${rule(`plugins = ["x"]\nnamespaces = []`)}`,
      /namespaces of volume_rule "a": must have 1 to 100 entries/,
    ],
    ["with a glob for a pool", list("node_pools", ["g*"]), /node_pools of volume_rule "a": "g\*" must be/],
    ["with a long pool", list("node_pools", ["x".repeat(129)]), /node_pools of volume_rule "a": /],
    ["with an object for the pools", rule("node_pools = { a = 1 }"), /"node_pools" must be a list of texts/],
    ["with an empty pattern", rule(`name_pattern = ""`), /name_pattern of volume_rule "a": must not be empty/],
    [
      "with a broken pattern",
      rule(`name_pattern = "("`),
      /name_pattern of volume_rule "a": is no regular expression: /,
    ],
    ["with a look-ahead", rule(`name_pattern = "(?=a)"`), /is no regular expression: look-around is not supported/],
    ["with a back-reference", rule(`name_pattern = "(a)\\\\1"`), /is no regular expression: back-references are not/],
    ["with a pattern that repeats too much", rule(`name_pattern = "(a{100}){100}"`), /is no regular expression: /],
    ["with a pattern too long", rule(`name_pattern = "${"a".repeat(513)}"`), /longer than 512 characters/],
    ["with a number for a pattern", rule("name_pattern = 1"), /"name_pattern" must be a text/],
    ["with a size of zero", rule("max_capacity = 0"), SIZE],
    ["with a negative size", rule("max_capacity = -1"), SIZE],
    ["with half a byte", rule("max_capacity = 1.5"), SIZE],
    ["with a size above 2^53 - 1", rule("max_capacity = 9007199254740992"), SIZE],
    ["with an unknown unit", rule(`max_capacity = "10GiX"`), SIZE],
    ["with half a unit", rule(`max_capacity = "10Gi"`), SIZE],
    ["with a unit alone", rule(`max_capacity = "GiB"`), SIZE],
    ["with an empty size", rule(`max_capacity = ""`), SIZE],
    ["with a size in units above 2^53 - 1", rule(`max_capacity = "9999PiB"`), SIZE],
    ["with a flag for a size", rule("max_capacity = true"), /"max_capacity" must be a text/],
    [
      "with null for a size",
      `{"volume_rule":{"a":{"max_capacity":null,"enforcement":"advisory"}}}`,
      /"max_capacity" must be a text/,
    ],
  ])("%s", (_what, document, says) => {
    const result = parsePolicy(document);
    expect(result.ok ? "accepted" : result.message).toMatch(says);
    expect(result.ok ? "" : result.message).toMatch(/\(line \d+\)$/);
  });
});
