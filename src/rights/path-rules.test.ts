import { describe, expect, it } from "vitest";
import { textSteps } from "../../test/text-steps.ts";
import type { Capability, ParameterConstraints, PathRule } from "../contracts/policies.ts";
import { capabilitiesFor, compilePaths, mayBelow, ruleFor } from "./path-rules.ts";

const rule = (path: string, capabilities: string, constraints: ParameterConstraints = {}): PathRule => ({
  path,
  capabilities: capabilities.split(" ") as Capability[],
  ...constraints,
});
/** Rules as `{pattern: "capabilities"}`, in one policy of the root namespace. */
const acl = (rules: Record<string, string>) =>
  compilePaths([{ namespace: "", paths: Object.entries(rules).map(([path, words]) => rule(path, words)) }]);
const asked = (rules: Record<string, string>, path: string, list = false) =>
  capabilitiesFor(acl(rules), path, { list }).join(" ");

describe("a pattern", () => {
  it.each([
    ["kv/a", "kv/a", true],
    ["kv/a", "/kv/a", true],
    ["kv/a", "kv/a/", false],
    ["kv/a", "kv/A", false],
    ["kv/a", "kv/a/b", false],
    ["kv/a", "kv", false],
    ["kv/*", "kv/a", true],
    ["kv/*", "kv/a/b/c", true],
    ["kv/*", "kv/", true],
    ["kv/*", "kv", false],
    ["kv/a*", "kv/a", true],
    ["kv/a*", "kv/abc/d", true],
    ["kv/a*", "kv/b", false],
    ["*", "anything/at/all", true],
    ["*", "", true],
    ["kv/*/b", "kv/*/b", true],
    ["kv/*/b", "kv/a/b", false],
    ["kv/a*b*", "kv/a*bc", true],
    ["kv/a*b*", "kv/axbc", false],
    ["kv/+/b", "kv/a/b", true],
    ["kv/+/b", "kv/a/x/b", false],
    ["kv/+/b", "kv/b", false],
    ["kv/+/b", "kv/a/b/c", false],
    ["+/b", "a/b", true],
    ["kv/+", "kv/a", true],
    ["kv/+", "kv/a/b", false],
    ["kv/+/+/c", "kv/a/b/c", true],
    ["+/+", "a/b", true],
    ["+", "a", true],
    ["kv/a+/b", "kv/ax/b", false],
    ["kv/a+/b", "kv/a+/b", true],
    ["kv/+b", "kv/ab", false],
    ["kv/+/b*", "kv/a/b", true],
    ["kv/+/b*", "kv/a/bcd/e", true],
    ["kv/+/b*", "kv/a/c", false],
    ["kv/+/*", "kv/a/", true],
    ["kv/+/*", "kv/a/b/c", true],
    ["kv/+/*", "kv/a", false],
    ["kv/ü/世*", "kv/ü/世界", true],
    ["kv/a.b", "kv/axb", false],
    ["kv/[a-z]", "kv/b", false],
    ["kv/a\u0000", "kv/a", false],
    ["kv/a\n*", "kv/a\nb", true],
    ["__proto__", "__proto__", true],
    ["constructor/*", "constructor/name", true],
    ["kv/a", "__proto__", false],
    ["kv/a", "toString", false],
  ])("%j matches %j: %s", (pattern, path, matches) => {
    expect(asked({ [`${pattern}`]: "read" }, path)).toBe(matches ? "read" : "deny");
  });

  it.each(["kv/app/../admin", "kv/app/..", "../kv/app/x", "kv/app/../../sys/seal"])(
    "never reaches %s, which climbs out of its folder",
    (path) => expect(asked({ "*": "read", "kv/app/*": "read", "+/+/+/+": "read", [path]: "read" }, path)).toBe("deny"),
  );

  it("treats other dots as part of a name", () => {
    expect(asked({ "kv/app/*": "read" }, "kv/app/..a/...")).toBe("read");
  });
});

describe("several matching patterns", () => {
  it.each([
    ["an exact pattern precedes a prefix", "kv/a", "kv/*", "kv/a"],
    ["an exact pattern precedes a segment pattern", "kv/a/c", "kv/+/c", "kv/a/c"],
    ["an exact pattern precedes others even if it grants less", "kv/a", "*", "kv/a"],
    ["1: the one whose first wildcard comes later", "kv/app/*", "kv/*", "kv/app/x"],
    ["1: a + counts as a wildcard", "kv/app/*", "kv/+/x/y/z", "kv/app/x/y/z"],
    ["1: before all other rules", "kv/a/+/+/+", "kv/+/b/c/d", "kv/a/b/c/d"],
    ["1: a literal * is no wildcard", "k*v/app/*", "k*v/+/x", "k*v/app/x"],
    ["1: a literal + is no wildcard", "k+v/app/*", "k+v/+/x", "k+v/app/x"],
    ["2: the one that does not end in *", "kv/+/b", "kv/+/*", "kv/a/b"],
    ["2: before the number of +", "kv/+/+/+", "kv/+/b/*", "kv/a/b/c"],
    ["3: the one with fewer +", "kv/+/b/c", "kv/+/+/c", "kv/a/b/c"],
    ["3: before the length", "kv/+/b*", "kv/+/+/ccccc*", "kv/a/bb/ccccc"],
    ["4: the longer one", "kv/+/bc*", "kv/+/b*", "kv/a/bcd"],
    ["5: the alphabetically greater one", "kv/+/b/+/d", "kv/+/+/c/d", "kv/a/b/c/d"],
  ])("%s", (_, winner, loser, path) => {
    const rules = [rule(winner, "read"), rule(loser, "delete")];
    for (const paths of [rules, rules.toReversed()]) {
      expect(ruleFor(compilePaths([{ namespace: "", paths }]), path)?.path).toBe(winner);
    }
    // Both patterns match: without the winner, the loser decides.
    expect(asked({ [`${loser}`]: "delete" }, path)).toBe("delete");
  });

  it("only the winner applies, without the capabilities of the others", () => {
    expect(asked({ "kv/*": "read update", "kv/a": "list" }, "kv/a")).toBe("list");
  });

  it("a deny of the winner applies, and a deny of a loser does not", () => {
    expect(asked({ "kv/*": "read", "kv/secret/*": "deny" }, "kv/secret/a")).toBe("deny");
    expect(asked({ "kv/*": "deny", "kv/open/*": "read" }, "kv/open/a")).toBe("read");
  });

  it("a winner without capabilities denies", () => {
    const paths = [rule("kv/*", "read"), { path: "kv/a", capabilities: [] }];
    expect(capabilitiesFor(compilePaths([{ namespace: "", paths }]), "kv/a")).toEqual(["deny"]);
  });
});

describe("listing", () => {
  it.each([
    ["a rule without slash applies to the folder", { "kv/a": "list" }, "kv/a/", "list"],
    ["a rule with slash applies to the folder", { "kv/a/": "list" }, "kv/a/", "list"],
    ["a path without slash is the same folder", { "kv/a/": "list" }, "kv/a", "list"],
    ["a rule without slash applies to the path without slash", { "kv/a": "list" }, "kv/a", "list"],
    ["the rule with slash precedes the one without", { "kv/a": "list", "kv/a/": "deny" }, "kv/a", "deny"],
    ["both precede a prefix", { "kv/*": "list", "kv/a": "deny" }, "kv/a/", "deny"],
    ["a prefix covers the folder itself", { "kv/a/*": "list" }, "kv/a", "list"],
    ["a + matches the folder's name", { "kv/+/": "list" }, "kv/a", "list"],
    ["rules below the folder do not apply", { "kv/a/b": "list" }, "kv/a/", "deny"],
    ["a + denies the folder that it names", { "kv/*": "list", "kv/+": "deny" }, "kv/a/", "deny"],
    ["a + grants the folder that it names", { "kv/+": "list" }, "kv/a/", "list"],
    ["a + in the middle denies", { "kv/*": "list", "kv/+/b": "deny" }, "kv/a/b/", "deny"],
    ["a + with a slash applies where nothing names the folder without", { "kv/+/": "list" }, "kv/a/", "list"],
    ["the rule of the folder's name precedes a prefix below it", { "kv/*": "list", "kv/a/*": "deny" }, "kv/a/", "list"],
    ["a prefix without a slash denies the folder", { "kv/*": "list", "kv/a*": "deny" }, "kv/a/", "deny"],
  ])("%s", (_, rules, path, capabilities) => {
    expect(asked(rules as Record<string, string>, path, true)).toBe(capabilities);
  });

  it("makes the slash optional; for other requests the paths differ", () => {
    expect(asked({ "kv/a": "read" }, "kv/a/")).toBe("deny");
    expect(asked({ "kv/a/": "read" }, "kv/a")).toBe("deny");
  });
});

describe("one pattern in several policies", () => {
  const merged = (...rules: PathRule[]) => {
    const policies = rules.map((each) => ({ namespace: "", paths: [each] }));
    return compilePaths(policies);
  };

  it.each(["kv/a", "kv/*", "kv/+"])("grants the capabilities of all of them, sorted (%s)", (path) => {
    expect(capabilitiesFor(merged(rule(path, "update read"), rule(path, "create")), "kv/a")).toEqual([
      "create",
      "read",
      "update",
    ]);
  });

  it.each(["kv/a", "kv/*", "kv/+"])("denies if any of them denies (%s)", (path) => {
    const [allow, deny] = [rule(path, "read sudo"), rule(path, "deny")];
    expect(capabilitiesFor(merged(allow, deny), "kv/a")).toEqual(["deny"]);
    expect(capabilitiesFor(merged(deny, allow, allow), "kv/a")).toEqual(["deny"]);
  });

  it("adds up within one policy", () => {
    const paths = [rule("kv/a", "read"), rule("kv/a", "list")];
    expect(capabilitiesFor(compilePaths([{ namespace: "", paths }]), "kv/a")).toEqual(["list", "read"]);
  });

  it("keeps the constraints of each", () => {
    const a = rule("p", "update", {
      allowedParameters: [
        { name: "x", values: ["1"] },
        { name: "y", values: ["1"] },
      ],
      requiredParameters: ["x"],
      minWrappingTtl: 10,
      maxWrappingTtl: 100,
    });
    const b = rule("p", "create", {
      allowedParameters: [
        { name: "x", values: ["2"] },
        { name: "y", values: [] },
      ],
      deniedParameters: [{ name: "z", values: [] }],
      requiredParameters: ["y", "x"],
      minWrappingTtl: 20,
      maxWrappingTtl: 50,
    });
    expect(ruleFor(merged(a, b, rule("p", "read")), "p")).toEqual({
      path: "p",
      capabilities: ["create", "read", "update"],
      allowedParameters: [
        { name: "x", values: ["1", "2"] },
        { name: "y", values: [] },
      ],
      deniedParameters: [{ name: "z", values: [] }],
      requiredParameters: ["x", "y"],
      minWrappingTtl: 10,
      maxWrappingTtl: 50,
    });
  });
});

describe("a policy of a namespace", () => {
  const paths = [rule("kv/*", "read"), rule("+/x", "list"), rule("*", "update")];
  const inside = compilePaths([{ namespace: "ns1/", paths }]);

  it.each([
    ["ns1/kv/a", "read"],
    ["ns1/any/x", "list"],
    ["ns1/other", "update"],
    ["ns1/", "update"],
    ["ns1", "deny"],
    ["kv/a", "deny"],
    ["ns2/kv/a", "deny"],
    ["ns10/kv/a", "deny"],
  ])("grants on %s: %s, because it applies to its own namespace only", (path, capabilities) => {
    expect(capabilitiesFor(inside, path).join(" ")).toBe(capabilities);
  });

  it("merges with a parent's rule about the same paths", () => {
    const parent = { namespace: "", paths: [rule("ns1/kv/*", "deny")] };
    expect(capabilitiesFor(compilePaths([parent, { namespace: "ns1/", paths }]), "ns1/kv/a")).toEqual(["deny"]);
  });

  it.each(["+/", "*", "a*/", "ns1", "/", "ns1//"])("throws for the namespace %j", (namespace) => {
    expect(() => compilePaths([{ namespace, paths }])).toThrow(RangeError);
  });
});

describe("any capability in a folder", () => {
  it.each([
    ["a rule for something in it", { "kv/data/a": "read" }, true],
    ["a rule for all of it", { "kv/*": "read" }, true],
    ["a rule for the folder itself", { "kv/": "list" }, true],
    ["a rule for the folder without its slash", { kv: "list" }, true],
    ["a rule for everything", { "*": "read" }, true],
    ["a rule for names that begin alike", { "k*": "read" }, true],
    ["a + in the folder's place", { "+/data/a": "read" }, true],
    ["a + and a prefix", { "+/data/*": "read" }, true],
    ["a + below it", { "kv/+/+/x": "read" }, true],
    ["a + alone", { "+": "list" }, true],
    ["a literal + in an exact place", { "kv/a+": "read" }, true],
    ["no rule", {}, false],
    ["a rule for another folder", { "kv2/*": "read", "k/*": "read" }, false],
    ["a rule with + for another folder", { "+/data": "read", "db/+/x": "read" }, true],
    ["only rules with + for other folders", { "db/+/x": "read", "+x/data": "read" }, false],
    ["only rules that deny", { "kv/*": "deny", "kv/a": "deny" }, false],
    ["a wide rule about the folder's name, all in it denied", { "*": "read", "kv/*": "deny" }, true],
    ["a wide rule that nearer ones deny", { "*": "read", "kv*": "deny" }, false],
    ["a + that a nearer rule denies", { "+/data/*": "read", "kv/*": "deny" }, false],
    ["an exception to what is denied", { "kv/*": "deny", "kv/open/*": "read" }, true],
    ["a wide rule, the folder itself denied", { "*": "read", "kv/": "deny" }, true],
  ])("%s", (_, rules, may) => {
    expect(mayBelow(acl(rules as Record<string, string>), "kv/")).toBe(may);
  });

  it("handles folders with several segments and in namespaces", () => {
    const inside = compilePaths([{ namespace: "ns1/", paths: [rule("team/kv/data/*", "read")] }]);
    expect(
      ["ns1/team/kv/", "ns1/team/", "ns1/team/kv2/", "team/kv/"].map((folder) => mayBelow(inside, folder)),
    ).toEqual([true, true, false, false]);
  });
});

describe("thousands of rules", () => {
  const paths = Array.from({ length: 5000 }, (_, i) => [
    rule(`kv/${i}/a`, "read"),
    rule(`kv/${i}/*`, "list"),
    rule(`kv/+/x${i}/*`, "update"),
  ]);
  const large = compilePaths([{ namespace: "", paths: paths.flat() }]);

  it("cost one prefix check each, and none for an exact match", () => {
    const beginnings = large.wild.reduce((sum, { start }) => sum + 1 + start.length, 0);
    for (const i of [0, 1, 2500, 4999]) {
      const exact = textSteps(() => capabilitiesFor(large, `kv/${i}/a`));
      expect(exact.value).toEqual(["read"]);
      expect(exact.steps).toBeLessThan(100);
      const wild = textSteps(() => capabilitiesFor(large, `kv/none/x${i}/b`));
      expect(wild.value).toEqual(["update"]);
      expect(wild.steps).toBeLessThan(beginnings + 100);
    }
  });
});
