import { describe, expect, it } from "vitest";
import type { Policy } from "../../contracts/policies.ts";
import { allowsNamespace, mergeClusterRules } from "../../rights/cluster-rights.ts";
import { capabilitiesFor, compilePaths } from "../../rights/path-rules.ts";
import { DEFAULT_POLICY, parsePolicy } from "./policy-parser.ts";

function parse(text: string): Policy {
  const result = parsePolicy(text);
  if (!result.ok) throw new Error(result.message);
  return result.policy;
}

function refusal(text: string): string {
  const result = parsePolicy(text);
  if (result.ok) throw new Error(`accepted: ${text}`);
  return result.message;
}

const path = (inside: string) => parse(`path "p" { ${inside} }`).paths[0];
const namespace = (inside: string) => parse(`namespace "n" { ${inside} }`).cluster.namespaces[0];
const sorted = (words: string) => words.split(" ").sort();

const READ =
  "list-jobs parse-job read-job csi-list-volume csi-read-volume read-job-scaling list-scaling-policies read-scaling-policy host-volume-read";
const WRITE = `${READ} scale-job submit-job dispatch-job read-logs read-fs alloc-exec alloc-lifecycle csi-mount-volume csi-write-volume submit-recommendation host-volume-create`;
const EVERY_NAMESPACE_CAPABILITY =
  "deny list-jobs parse-job read-job submit-job dispatch-job read-logs read-fs alloc-exec alloc-node-exec alloc-lifecycle csi-register-plugin csi-write-volume csi-read-volume csi-list-volume csi-mount-volume host-volume-create host-volume-register host-volume-read host-volume-write host-volume-delete list-scaling-policies read-scaling-policy read-job-scaling scale-job submit-recommendation register-job revert-job deregister-job purge-job evaluate-job plan-job tag-job-version stable-job fail-deployment pause-deployment promote-deployment unblock-deployment cancel-deployment set-alloc-health-deployment gc-allocation pause-allocation force-periodic-job delete-service-registration";

describe("a document", () => {
  it.each([
    ["nothing", ""],
    ["space and comments", " \n# nothing\n"],
    ["an empty JSON object", "{}"],
    ["only a name", `name = "p"`],
  ])("of %s is a policy without rights", (_, text) => {
    const { paths, cluster } = parse(text);
    expect(capabilitiesFor(compilePaths([{ namespace: "", paths }]), "any/path")).toEqual(["deny"]);
    expect(allowsNamespace(mergeClusterRules([cluster]), "default", "read-job")).toBe(false);
  });

  it("may contain path rules and cluster rules", () => {
    const policy = parse(`path "kv/*" { capabilities = ["read"] }\nnamespace "default" { policy = "scale" }`);
    expect(policy.paths).toEqual([{ path: "kv/*", capabilities: ["read"] }]);
    expect(policy.cluster.namespaces.map(({ name }) => name)).toEqual(["default"]);
  });

  it("is equivalent in HCL, in JSON and in JSON with lists", () => {
    const hcl = parse(`
      path "kv/data/*" { capabilities = ["read", "list"]  allowed_parameters { "a" = ["x"] } }
      namespace "default" { policy = "read"  variables { path "app/*" { capabilities = ["list"] } } }
      node { policy = "read" }
      host_volume "data*" { capabilities = ["mount-readonly"] }`);
    const json = `{"path":{"kv/data/*":{"capabilities":["read","list"],"allowed_parameters":{"a":["x"]}}},
      "namespace":{"default":{"policy":"read","variables":{"path":{"app/*":{"capabilities":["list"]}}}}},
      "node":{"policy":"read"},"host_volume":{"data*":{"capabilities":["mount-readonly"]}}}`;
    const lists = `{"path":[{"kv/data/*":[{"capabilities":["read","list"],"allowed_parameters":[{"a":["x"]}]}]}],
      "namespace":[{"default":{"policy":"read","variables":[{"path":[{"app/*":{"capabilities":["list"]}}]}]}}],
      "node":[{"policy":"read"}],"host_volume":[{"data*":[{"capabilities":["mount-readonly"]}]}]}`;
    expect(parse(json)).toEqual(hcl);
    expect(parse(lists)).toEqual(hcl);
    expect(hcl.paths).toHaveLength(1);
  });

  it("is unchanged after storage as JSON, for any names", () => {
    const policy = parse(`
      path "__proto__" { capabilities = ["read"]
        allowed_parameters = { "__proto__" = ["a", 1, true, ["b"]], constructor = [] } max_wrapping_ttl = "1h" }
      namespace "constructor" { policy = "write" }
      operator { policy = "read" capabilities = ["snapshot-save"] }`);
    expect(JSON.parse(JSON.stringify(policy))).toEqual(policy);
    expect(structuredClone(policy)).toEqual(policy);
    expect(policy.paths[0]?.allowedParameters?.map(({ name }) => name)).toEqual(["__proto__", "constructor"]);
  });
});

describe("a path rule", () => {
  it.each([
    ["deny", "deny"],
    ["read", "read list"],
    ["write", "create read update delete list"],
    ["sudo", "create read update delete list sudo"],
  ])("with the legacy policy word %s grants the capabilities %s", (word, capabilities) => {
    expect(path(`policy = "${word}"`)?.capabilities).toEqual(sorted(capabilities));
  });

  it("accepts every capability of the language", () => {
    const words = "create delete list patch read recover scan subscribe sudo update";
    expect(path(`capabilities = [${sorted(words).map((word) => `"${word}"`)}]`)?.capabilities).toEqual(sorted(words));
  });

  it("adds the legacy policy word to its capabilities", () => {
    expect(path(`policy = "read" capabilities = ["patch"]`)?.capabilities).toEqual(["list", "patch", "read"]);
  });

  it("with deny among its capabilities has no other capability", () => {
    expect(path(`capabilities = ["read", "deny", "sudo"]`)?.capabilities).toEqual(["deny"]);
  });

  it("drops one leading slash of its pattern", () => {
    expect(parse(`path "/kv/a" { policy = "read" }`).paths[0]?.path).toBe("kv/a");
    expect(parse(`path "//kv/a" { policy = "read" }`).paths[0]?.path).toBe("/kv/a");
  });

  it("keeps its parameter constraints, with names in lower case", () => {
    expect(
      path(`capabilities = ["update"]
        allowed_parameters = { "Foo" = ["a", "b*", 5, true, ["x", "y"]], "*" = [] }
        denied_parameters { BAR = [] }
        required_parameters = ["Foo", "baz"]
        min_wrapping_ttl = "90"
        max_wrapping_ttl = 3600`),
    ).toEqual({
      path: "p",
      capabilities: ["update"],
      allowedParameters: [
        { name: "foo", values: ["a", "b*", 5, true, ["x", "y"]] },
        { name: "*", values: [] },
      ],
      deniedParameters: [{ name: "bar", values: [] }],
      requiredParameters: ["foo", "baz"],
      minWrappingTtl: 90,
      maxWrappingTtl: 3600,
    });
  });

  it.each([
    ["60", 60],
    ["60s", 60],
    ["15m", 900],
    ["5m0s", 300],
    ["1h30m", 5400],
    ["2d", 172_800],
  ])("reads a wrapping time of %s as %d seconds", (written, seconds) =>
    expect(path(`max_wrapping_ttl = "${written}"`)?.maxWrappingTtl).toBe(seconds),
  );

  it("sets no bound for a wrapping time of zero", () => {
    expect(path(`min_wrapping_ttl = "10s" max_wrapping_ttl = 0`)).toEqual({
      path: "p",
      capabilities: [],
      minWrappingTtl: 10,
    });
  });
});

describe("a namespace rule", () => {
  it.each([
    ["read", READ],
    ["write", WRITE],
    ["scale", "list-scaling-policies read-scaling-policy read-job-scaling scale-job read-job submit-recommendation"],
    ["deny", "deny"],
  ])("with the policy %s has exactly its capabilities", (word, capabilities) => {
    expect(namespace(`policy = "${word}"`)?.capabilities).toEqual(sorted(capabilities));
  });

  it("accepts every capability of the language, bare or as namespace:…", () => {
    for (const word of EVERY_NAMESPACE_CAPABILITY.split(" ")) {
      expect(namespace(`capabilities = ["${word}"]`)?.capabilities, word).toEqual([word]);
      expect(namespace(`capabilities = ["namespace:${word}"]`)?.capabilities, word).toEqual([word]);
    }
  });

  it.each(["policy-override", "sentinel-override", "namespace:policy-override"])(
    "reads %s as policy-override",
    (word) => {
      expect(namespace(`capabilities = ["${word}"]`)?.capabilities).toEqual(["policy-override"]);
    },
  );

  it("adds capabilities to those of its policy word", () => {
    expect(namespace(`policy = "read" capabilities = ["submit-job", "read-job"]`)?.capabilities).toEqual(
      sorted(`${READ} submit-job`),
    );
  });

  it("keeps the rules of its variables blocks", () => {
    const inside = `variables { path "app/*" { capabilities = ["list", "destroy"] } path "x" { capabilities = ["deny"] } }`;
    expect(namespace(inside)?.variables).toEqual([
      { name: "app/*", capabilities: ["list", "destroy"] },
      { name: "x", capabilities: ["deny"] },
    ]);
  });
});

describe("the other cluster rules", () => {
  it.each([
    ["node", ["deny", "read", "write"]],
    ["agent", ["deny", "read", "write"]],
    ["operator", ["deny", "read", "write"]],
    ["quota", ["deny", "read", "write"]],
    ["sentinel", ["deny", "read", "write"]],
    ["plugin", ["deny", "list", "read"]],
  ])("%s accepts only the words %j", (family, words) => {
    for (const word of words) {
      expect(parse(`${family} { policy = "${word}" }`).cluster.levels).toEqual({ [family]: word });
    }
    const other = family === "plugin" ? "scale" : "list";
    expect(refusal(`${family} { policy = "${other}" }`)).toContain(`unknown policy "${other}" in ${family}`);
  });

  it("plugin write means read, because plugins have no writable settings", () => {
    expect(parse(`plugin { policy = "write" }`).cluster.levels).toEqual({ plugin: "read" });
  });

  it.each([
    ["deny", ["deny"]],
    ["read", ["mount-readonly"]],
    ["write", ["mount-readonly", "mount-readwrite"]],
  ])("host_volume %s means %j", (word, capabilities) => {
    expect(parse(`host_volume "v*" { policy = "${word}" }`).cluster.hostVolumes).toEqual([
      { name: "v*", capabilities },
    ]);
  });

  it.each([
    ["deny", ["deny"]],
    ["read", ["read"]],
    ["write", ["delete", "read", "write"]],
  ])("node_pool %s means %j", (word, capabilities) => {
    expect(parse(`node_pool "gpu_1" { policy = "${word}" }`).cluster.nodePools).toEqual([
      { name: "gpu_1", capabilities },
    ]);
  });

  it("operator accepts capabilities with or without a policy word", () => {
    const words = ["deny", "snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete"];
    const list = words.map((word) => `"${word}"`);
    expect(parse(`operator { capabilities = [${list}] }`).cluster).toMatchObject({
      operatorCapabilities: words,
      levels: {},
    });
    expect(parse(`operator { policy = "read" capabilities = ["snapshot-save"] }`).cluster).toMatchObject({
      operatorCapabilities: ["snapshot-save"],
      levels: { operator: "read" },
    });
  });
});

describe("names of 128 characters", () => {
  it.each(["namespace", "host_volume", "node_pool"])("are accepted for %s", (kind) => {
    const result = parsePolicy(`${kind} "${"a-*9".repeat(32)}" { policy = "read" }`);
    expect(result.ok).toBe(true);
  });
});

describe("the built-in default policy", () => {
  it.each([
    ["auth/token/lookup-self", "read"],
    ["auth/token/renew-self", "update"],
    ["auth/token/revoke-self", "update"],
    ["sys/capabilities-self", "update"],
    ["sys/internal/ui/resultant-acl", "read"],
    ["sys/renew", "update"],
    ["sys/leases/renew", "update"],
    ["sys/leases/lookup", "update"],
    ["cubbyhole/any/thing", "create delete list read update"],
    ["sys/wrapping/wrap", "update"],
    ["sys/wrapping/lookup", "update"],
    ["sys/wrapping/unwrap", "update"],
    ["sys/tools/hash", "update"],
    ["sys/tools/hash/sha2-256", "update"],
    ["auth/token/create", "deny"],
    ["sys/leases/revoke", "deny"],
    ["kv/data/a", "deny"],
    ["identity/entity/id/1", "deny"],
  ])("gives %s: %s", (asked, capabilities) => {
    const acl = compilePaths([{ namespace: "", paths: parse(DEFAULT_POLICY).paths }]);
    expect(capabilitiesFor(acl, asked)).toEqual(capabilities.split(" "));
  });

  it("grants nothing in the cluster", () => {
    expect(parse(DEFAULT_POLICY).cluster).toEqual(parse("").cluster);
  });
});
