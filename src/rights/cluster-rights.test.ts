import { describe, expect, it } from "vitest";
import { textSteps } from "../../test/text-steps.ts";
import { parsePolicy } from "../access/policies/policy-parser.ts";
import { CSI_LIST_RIGHTS, CSI_READ_RIGHTS, MANAGEMENT, type NamespaceRight } from "../contracts/cluster-rights.ts";
import {
  allowsAgent,
  allowsHostVolume,
  allowsNamespace,
  allowsNamespaceAny,
  allowsNode,
  allowsNodePool,
  allowsOperator,
  allowsPlugin,
  allowsVariable,
  hasVariableRules,
  mergeClusterRules,
  namespaceCapability,
} from "./cluster-rights.ts";

/** The rights of a token with these policies, each a document. */
function rights(...documents: string[]) {
  return mergeClusterRules(
    documents.map((text) => {
      const result = parsePolicy(text);
      if (!result.ok) throw new Error(result.message);
      return result.policy.cluster;
    }),
  );
}

/** Rights from namespace rules as `{glob: "words"}`; a word is a policy word or a capability. */
const namespaces = (rules: Record<string, string>) =>
  rights(
    ...Object.entries(rules).map(([name, word]) =>
      /^(read|write|scale|deny)$/.test(word)
        ? `namespace "${name}" { policy = "${word}" }`
        : `namespace "${name}" { capabilities = ["${word.split(" ").join('","')}"] }`,
    ),
  );

describe("the rule that applies to a namespace is", () => {
  it.each([
    ["the one with its name", { default: "read" }, "default", true],
    ["not one with another name", { other: "read" }, "default", false],
    ["not one with a prefix of its name", { def: "read" }, "default", false],
    ["none without rules", {}, "default", false],
    ["a glob for all names", { "*": "read" }, "default", true],
    ["a glob for its prefix", { "prod-*": "read" }, "prod-eu", true],
    ["a glob whose star matches nothing", { "prod*": "read" }, "prod", true],
    ["a glob for its suffix", { "*-eu": "read" }, "prod-eu", true],
    ["a glob for its middle", { "p*-*u": "read" }, "prod-eu", true],
    ["not a glob that does not match", { "prod-*": "read" }, "dev-eu", false],
    ["its own name before a glob", { "*": "write", dev: "deny" }, "dev", false],
    ["its own name before a closer glob", { "dev*": "deny", dev: "read" }, "dev", true],
    ["the closest glob, which denies", { "*": "read", "prod-*": "deny" }, "prod-eu", false],
    ["the closest glob, which grants", { "*": "deny", "prod-*": "read" }, "prod-eu", true],
    ["the closest by the text that the stars match", { "pro*-eu": "read", "prod-*": "deny" }, "prod-eu", true],
    ["the closest regardless of the number of stars", { "p*od-*u": "read", "prod*": "deny" }, "prod-eu", true],
    ["the denying one of two equally close", { "*b": "read", "a*": "deny" }, "ab", false],
    ["the alphabetically first of two equally close", { "a*": "parse-job", "*b": "read" }, "ab", true],
    ["one with the same letter case", { Default: "read" }, "default", false],
    ["none for names of object internals", { default: "read" }, "__proto__", false],
    ["one with a name of object internals", { constructor: "read" }, "constructor", true],
    ["none for the name *", { "*": "read" }, "*", false],
    ["not a glob with a line break after its match", { "*-eu": "read" }, "x-eu\n", false],
    ["a very long name", { "a*": "read" }, "a".repeat(100_000), true],
  ])("%s", (_, rules, namespace, allowed) => {
    expect(allowsNamespace(namespaces(rules as Record<string, string>), namespace, "read-job")).toBe(allowed);
  });

  it("rules with different names are not combined", () => {
    const held = namespaces({ "*": "write", dev: "read" });
    expect(allowsNamespace(held, "dev", "submit-job")).toBe(false);
    expect(allowsNamespace(held, "other", "submit-job")).toBe(true);
  });
});

describe("rules with the same name", () => {
  it("add up over policies and within one policy", () => {
    const held = rights(
      `namespace "n" { capabilities = ["read-job"] } namespace "n" { capabilities = ["read-logs"] }`,
      `namespace "n" { capabilities = ["read-fs"] }`,
    );
    for (const word of ["read-job", "read-logs", "read-fs"] as const)
      expect(allowsNamespace(held, "n", word)).toBe(true);
    expect(allowsNamespace(held, "n", "submit-job")).toBe(false);
  });

  it.each([
    ["first", [`namespace "n" { policy = "deny" }`, `namespace "n" { policy = "write" }`]],
    ["last", [`namespace "n" { policy = "write" }`, `namespace "n" { policy = "deny" }`]],
    ["in the same block", [`namespace "n" { policy = "write" capabilities = ["deny"] }`]],
  ])("grant nothing if one of them denies: %s", (_, documents) => {
    expect(allowsNamespace(rights(...documents), "n", "read-job")).toBe(false);
    expect(allowsNamespaceAny(rights(...documents), ["read-job"])).toBe(false);
  });

  it("deny host volumes and node pools, too", () => {
    const held = rights(
      `host_volume "v" { policy = "write" } node_pool "p" { policy = "write" }`,
      `host_volume "v" { policy = "deny" } node_pool "p" { policy = "deny" }`,
    );
    expect(allowsHostVolume(held, "v", "mount-readonly")).toBe(false);
    expect(allowsNodePool(held, "p", "read")).toBe(false);
  });
});

describe("capabilities that include others", () => {
  const all = ["create", "delete", "read", "register", "write"] as const;
  it.each([
    ["host-volume-write", "create delete read register write"],
    ["host-volume-register", "create read register"],
    ["host-volume-create", "create read"],
    ["host-volume-delete", "delete"],
    ["host-volume-read", "read"],
    ["read", "read"],
    ["write", "create read"],
  ])("%s includes %s and no others", (word, expected) => {
    const held = namespaces({ n: word });
    expect(all.filter((each) => allowsNamespace(held, "n", `host-volume-${each}`)).join(" ")).toBe(expected);
  });

  it("grant none of them next to a deny", () => {
    expect(allowsNamespace(namespaces({ n: "host-volume-write deny" }), "n", "host-volume-read")).toBe(false);
  });
});

describe("names of capabilities", () => {
  const words: NamespaceRight[] = [
    "csi-list-volume",
    "namespace:csi-list-volume",
    "host-volume-read",
    "namespace:read-job",
  ];
  it.each(words)("%s is a required capability under its documented name", (word) => {
    expect(allowsNamespace(namespaces({ n: "read" }), "n", word)).toBe(true);
    expect(allowsNamespace(namespaces({ n: "submit-job" }), "n", word)).toBe(false);
  });

  it.each(["policy-override", "sentinel-override"])(
    "%s in a policy grants the capability under both of its names",
    (word) => {
      const held = namespaces({ n: word });
      expect(allowsNamespace(held, "n", "namespace:policy-override")).toBe(true);
      expect(allowsNamespace(held, "n", "sentinel-override")).toBe(true);
    },
  );

  it.each(["", "read", "namespace:", "namespace:namespace:read-job", "constructor", "READ-JOB"])(
    "%j is not a capability",
    (word) => {
      expect(namespaceCapability(word)).toBeUndefined();
    },
  );
});

describe("a request that needs one of several capabilities", () => {
  it.each(["csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs"])(
    "%s lets a token list CSI volumes",
    (word) => {
      expect(allowsNamespace(namespaces({ n: word }), "n", CSI_LIST_RIGHTS)).toBe(true);
    },
  );

  it.each(["csi-read-volume", "csi-mount-volume", "read-job"])("%s lets a token read a CSI volume", (word) => {
    expect(allowsNamespace(namespaces({ n: word }), "n", CSI_READ_RIGHTS)).toBe(true);
  });

  it("is refused if the token has none of them, and if the list is empty", () => {
    expect(allowsNamespace(namespaces({ n: "csi-write-volume" }), "n", CSI_LIST_RIGHTS)).toBe(false);
    expect(allowsNamespace(namespaces({ n: "list-jobs" }), "n", CSI_READ_RIGHTS)).toBe(false);
    expect(allowsNamespace(namespaces({ n: "write" }), "n", [])).toBe(false);
  });

  it("for any namespace is allowed by any matching rule", () => {
    const held = namespaces({ a: "deny", "b*": "host-volume-read" });
    expect(allowsNamespaceAny(held, ["host-volume-read"])).toBe(true);
    expect(allowsNamespaceAny(held, ["read-job", "namespace:host-volume-read"])).toBe(true);
    expect(allowsNamespaceAny(held, ["read-job"])).toBe(false);
    expect(allowsNamespaceAny(namespaces({}), ["read-job"])).toBe(false);
  });
});

describe("read, write, list and deny levels", () => {
  const level = (family: string, ...words: string[]) =>
    rights(...words.map((word) => `${family} { policy = "${word}" }`));

  it.each([
    [[], "none"],
    [["read"], "read"],
    [["write"], "read write"],
    [["deny"], "none"],
    [["read", "write"], "read write"],
    [["write", "read"], "read write"],
    [["write", "deny", "read"], "none"],
  ])("policies %j of node, agent and operator allow: %s", (words, expected) => {
    const allowed = (asks: (wanted: "read" | "write") => boolean) =>
      (["read", "write"] as const).filter(asks).join(" ") || "none";
    expect(allowed((wanted) => allowsNode(level("node", ...words), wanted))).toBe(expected);
    expect(allowed((wanted) => allowsAgent(level("agent", ...words), wanted))).toBe(expected);
    expect(allowed((wanted) => allowsOperator(level("operator", ...words), wanted))).toBe(expected);
  });

  it.each([
    [["list"], "list"],
    [["read"], "list read"],
    [["write"], "list read"],
    [["list", "read"], "list read"],
    [["read", "deny"], "none"],
  ])("policies %j of plugin allow: %s", (words, expected) => {
    const held = level("plugin", ...words);
    expect((["list", "read"] as const).filter((wanted) => allowsPlugin(held, wanted)).join(" ") || "none").toBe(
      expected,
    );
  });

  it("of one object type grant nothing on another", () => {
    const held = level("node", "write");
    expect([allowsAgent(held, "read"), allowsOperator(held, "read"), allowsPlugin(held, "list")]).toEqual([
      false,
      false,
      false,
    ]);
    expect(allowsNamespaceAny(held, ["read-job"])).toBe(false);
  });
});

describe("operator capabilities", () => {
  it.each([
    [`operator { capabilities = ["snapshot-save"] }`, "snapshot-save"],
    [`operator { policy = "read" }`, "license-read"],
    [`operator { policy = "read" capabilities = ["keyring-read"] }`, "keyring-read license-read"],
    [`operator { policy = "write" }`, "keyring-delete keyring-read keyring-rotate license-read snapshot-save"],
    [`operator { policy = "write" capabilities = ["deny"] }`, "none"],
    [`operator { policy = "deny" capabilities = ["snapshot-save"] }`, "none"],
  ])("%s grants %s", (document, expected) => {
    const held = rights(document);
    const words = ["keyring-delete", "keyring-read", "keyring-rotate", "license-read", "snapshot-save"] as const;
    expect(words.filter((word) => allowsOperator(held, word)).join(" ") || "none").toBe(expected);
    expect(allowsOperator(held, "write")).toBe(words.every((word) => allowsOperator(held, word)));
  });
});

describe("host volumes and node pools", () => {
  it.each([
    [`host_volume "data*" { policy = "read" }`, "data1", true, false],
    [`host_volume "data*" { policy = "write" }`, "data1", true, true],
    [`host_volume "data*" { capabilities = ["mount-readwrite"] }`, "data1", true, true],
    [`host_volume "*" { policy = "write" } host_volume "data*" { policy = "read" }`, "data1", true, false],
    [`host_volume "data*" { policy = "write" }`, "other", false, false],
  ])("%s on the host volume %s allows reading: %s, writing: %s", (document, name, reading, writing) => {
    expect(allowsHostVolume(rights(document), name, "mount-readonly")).toBe(reading);
    expect(allowsHostVolume(rights(document), name, "mount-readwrite")).toBe(writing);
  });

  it.each([
    [`node_pool "gpu" { policy = "read" }`, "read"],
    [`node_pool "g*" { policy = "write" }`, "delete read write"],
    [`node_pool "gpu" { capabilities = ["delete"] }`, "delete"],
    [`node_pool "g*" { policy = "write" } node_pool "gpu" { policy = "deny" }`, "none"],
  ])("%s grants on the pool gpu: %s", (document, expected) => {
    const held = rights(document);
    expect(
      (["delete", "read", "write"] as const).filter((word) => allowsNodePool(held, "gpu", word)).join(" ") || "none",
    ).toBe(expected);
  });
});

describe("variables", () => {
  const held = rights(
    `namespace "n" { variables { path "app/*" { capabilities = ["read"] } path "app/x" { capabilities = ["deny"] } } }`,
    `namespace "n" { variables { path "app/*" { capabilities = ["destroy"] } } }`,
    `namespace "d" { policy = "deny" variables { path "*" { capabilities = ["write"] } } }`,
  );

  it.each([
    ["n", "app/a", "list read destroy"],
    ["n", "app/x", "none"],
    ["n", "other", "none"],
    ["d", "app/a", "none"],
    ["m", "app/a", "none"],
  ])("in namespace %s, %s allows %s", (namespace, path, expected) => {
    const words = ["list", "read", "write", "destroy"] as const;
    expect(words.filter((word) => allowsVariable(held, namespace, path, word)).join(" ") || "none").toBe(expected);
  });

  it("allow a subscription if a variable rule exists and none denies", () => {
    expect(["n", "d", "m"].map((namespace) => hasVariableRules(held, namespace))).toEqual([true, false, false]);
    expect(hasVariableRules(rights(`namespace "n" { policy = "write" }`), "n")).toBe(false);
  });
});

describe("merged cluster rights", () => {
  const questions = (held: typeof MANAGEMENT) => [
    allowsNamespace(held, "default", "policy-override"),
    allowsNamespaceAny(held, ["read-job"]),
    allowsNode(held, "write"),
    allowsPlugin(held, "read"),
    allowsOperator(held, "write"),
    allowsOperator(held, "keyring-delete"),
    allowsAgent(held, "write"),
    allowsHostVolume(held, "v", "mount-readwrite"),
    allowsNodePool(held, "p", "delete"),
    allowsVariable(held, "default", "a", "destroy"),
    hasVariableRules(held, "default"),
  ];

  it("of a management token allow everything, also when they are stored and loaded", () => {
    expect(new Set(questions(MANAGEMENT))).toEqual(new Set([true]));
    expect(new Set(questions(structuredClone(MANAGEMENT)))).toEqual(new Set([true]));
  });

  it("without policies allow nothing", () => {
    expect(new Set(questions(rights()))).toEqual(new Set([false]));
  });

  it("are the same after a round trip through JSON and in any order of policies", () => {
    const documents = [
      `namespace "constructor" { policy = "write" } node { policy = "read" } plugin { policy = "list" }`,
      `namespace "a*" { policy = "read" variables { path "__proto__" { capabilities = ["read"] } } }`,
      `operator { capabilities = ["snapshot-save"] } host_volume "v" { policy = "read" } node { policy = "write" }`,
    ];
    const held = rights(...documents);
    expect(JSON.parse(JSON.stringify(held))).toEqual(held);
    expect(JSON.stringify(rights(...documents.toReversed()))).toBe(JSON.stringify(held));
    expect(allowsVariable(held, "ab", "__proto__", "read")).toBe(true);
  });

  it("of thousands of rules are merged and checked in linear time", () => {
    const many = (count: number) =>
      Array.from({ length: count }, (_, i) => `namespace "n${i}-*" { policy = "read" }`).join("\n");
    const text = many(5000);
    const merged = textSteps(() => rights(text));
    expect(merged.steps).toBeLessThan(40 * text.length);
    const asked = textSteps(() => [
      allowsNamespace(merged.value, "n4999-x", "read-job"),
      allowsNamespace(merged.value, "n0-x", "submit-job"),
    ]);
    expect(asked.value).toEqual([true, false]);
    expect(asked.steps).toBeLessThan(8 * text.length);
  });
});
