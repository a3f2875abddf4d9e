import { describe, expect, it } from "vitest";
import { parsePolicy } from "./policy-parser.ts";

function refusal(text: string): string {
  const result = parsePolicy(text);
  if (result.ok) throw new Error(`accepted: ${text}`);
  return result.message;
}

describe("a refusal of a document of the secrets API has upstream's words for", () => {
  it.each([
    [`path "a" {\n foo = 1 }`, 'failed to parse policy: path "a": invalid key "foo" on line 2'],
    [`{"path":{"a":{"foo":1}}}`, 'failed to parse policy: path "a": invalid key "foo" on line 1'],
    [`pth "a" { }`, 'failed to parse policy: invalid key "pth" on line 1'],
    [`{"pth":{}}`, 'failed to parse policy: invalid key "pth" on line 1'],
    [`path "a" { capabilities = ["x"] }`, 'failed to parse policy: path "a": invalid capability "x"'],
    [`{"path":{"a":{"capabilities":["x"]}}}`, 'failed to parse policy: path "a": invalid capability "x"'],
    [`path "a" { policy = "x" }`, 'failed to parse policy: path "a": invalid policy "x"'],
    [`path "a/+*" { }`, `failed to parse policy: path "a/+*": invalid use of wildcards ('+*' is forbidden)`],
    [`path "a" {`, 'failed to parse policy: At 1:10: expected "}": opened here, never closed'],
    [
      `path "a" { min_wrapping_ttl = 2 max_wrapping_ttl = 1 }`,
      'failed to parse policy: path "a": max_wrapping_ttl cannot be less than min_wrapping_ttl',
    ],
    [`namespace "a" { x = 1 }`, 'failed to parse policy: namespace "a": invalid key "x" on line 1'],
    [`path "a" { capabilities = "x" }`, 'failed to parse policy: "capabilities" must be a list of texts (line 1)'],
  ])("%s", (text, message) => {
    expect(parsePolicy(text, "secrets")).toEqual({ ok: false, message });
  });
});

describe("a document is accepted, as upstream accepts it, with", () => {
  const RULE = { path: "a", capabilities: ["read"] };
  it.each([
    ["a comment", `path "a" { capabilities = ["read"] comment = "why" }`, RULE],
    [
      "types of events",
      `path "a" { capabilities = ["read"] subscribe_event_types = ["kv*"] }`,
      { ...RULE, subscribeEventTypes: ["kv*"] },
    ],
    ["a bound of lists", `path "a" { capabilities = ["read"] pagination_limit = 5 }`, { ...RULE, paginationLimit: 5 }],
    ["an empty wrapping time", `path "a" { capabilities = ["read"] min_wrapping_ttl = "" }`, RULE],
    [
      "a wrapping time with a fraction",
      `path "a" { capabilities = ["read"] max_wrapping_ttl = "1.5h" }`,
      { ...RULE, maxWrappingTtl: 5400 },
    ],
    ["an empty policy", `path "a" { policy = "" capabilities = ["read"] }`, RULE],
  ])("%s", (_, text, rule) => {
    expect(parsePolicy(text)).toMatchObject({ ok: true, policy: { paths: [rule] } });
  });

  it.each([
    `node { policy = "scale" }`,
    `agent { policy = "scale" }`,
    `host_volume "a" { policy = "scale" }`,
    `node_pool "a" { policy = "scale" }`,
    `operator { }`,
    `namespace "a" { policy = "" }`,
    `sentinel { policy = "read" capabilities = ["sentinel-submit"] }`,
  ])("%s", (text) => {
    expect(parsePolicy(text).ok).toBe(true);
  });
});

describe("a refusal of a document names the cause and the line for", () => {
  it.each([
    ["a syntax fault", `\npath "a" {`, /^Failed to parse ACL Policy: line 2, column 10: /],
    [
      "a repeated attribute",
      `path "a" {\n policy = "read"\n policy = "read" }`,
      /line 3, column 2: duplicate attribute "policy"/,
    ],
    [
      "an unknown block",
      `\nvolume { }`,
      /^Invalid or duplicate policy keys: "volume" is not known in the document \(line 2\)$/,
    ],
    ["a block of a later version", `snapshot_rule "a" { }`, /"snapshot_rule" is not known/],
    ["a block named as an object's internals", `__proto__ { }`, /"__proto__" is not known/],
    [
      "an unknown key in a path",
      `path "a" {\n capability = ["read"] }`,
      /^Failed to parse ACL Policy: path "a": invalid key "capability" on line 2$/,
    ],
    ["an unknown key in a namespace", `namespace "a" { rules = 1 }`, /"rules" is not known in namespace "a"/],
    [
      "an unknown key in a host_volume",
      `host_volume "a" { variables { } }`,
      /"variables" is not known in host_volume "a"/,
    ],
    ["an unknown key in a node_pool", `node_pool "a" { x = 1 }`, /"x" is not known in node_pool "a"/],
    ["an unknown key in a node", `node { policy = "read" capabilities = [] }`, /"capabilities" is not known in node/],
    ["an unknown key in variables", `namespace "a" { variables { x = 1 } }`, /"x" is not known in variables/],
    [
      "an unknown key in a variables path",
      `namespace "a" { variables { path "b" { policy = "read" } } }`,
      /"policy" is not known in variables path "b"/,
    ],
    [
      "a family twice",
      `node { policy = "read" }\nnode { policy = "write" }`,
      /^Invalid or duplicate policy keys: "node" stands twice \(line 2\)$/,
    ],
    [
      "an unknown path capability",
      `path "a" {\n\n capabilities = ["read", "raed"] }`,
      /^Failed to parse ACL Policy: path "a": invalid capability "raed"$/,
    ],
    ["a capability in the wrong case", `path "a" { capabilities = ["READ"] }`, /invalid capability "READ"/],
    [
      "a capability of object internals",
      `path "a" { capabilities = ["constructor"] }`,
      /invalid capability "constructor"/,
    ],
    [
      "an unknown namespace capability",
      `namespace "a" { capabilities = ["fly"] }`,
      /unknown capability "fly" in namespace "a"/,
    ],
    [
      "an unknown host volume capability",
      `host_volume "a" { capabilities = ["read"] }`,
      /unknown capability "read" in host_volume "a"/,
    ],
    [
      "an unknown node pool capability",
      `node_pool "a" { capabilities = ["list"] }`,
      /unknown capability "list" in node_pool "a"/,
    ],
    ["an unknown operator capability", `operator { capabilities = ["x"] }`, /unknown capability "x" in operator/],
    [
      "an unknown variables capability",
      `namespace "a" { variables { path "b" { capabilities = ["sudo"] } } }`,
      /unknown capability "sudo" in variables path "b"/,
    ],
    ["an unknown path policy", `path "a" { policy = "admin" }`, /path "a": invalid policy "admin"/],
    ["an unknown namespace policy", `namespace "a" { policy = "list" }`, /unknown policy "list" in namespace "a"/],
    ["an unknown host volume policy", `host_volume "a" { policy = "list" }`, /unknown policy "list"/],
    ["an unknown sentinel capability", `sentinel { capabilities = ["x"] }`, /unknown capability "x" in sentinel/],
    ["an unknown node pool policy", `node_pool "a" { policy = "list" }`, /unknown policy "list"/],
    ["a family without a policy", `agent { }`, /agent needs a policy/],
    ["+*", `path "a/+*" { policy = "read" }`, /path "a\/\+\*": invalid use of wildcards \('\+\*' is forbidden\)/],
    ["+* in the middle", `path "a/+*/b" { policy = "read" }`, /invalid use of wildcards/],
    ["an open template", `path "a/{{identity.entity.id" { policy = "deny" }`, /unbalanced templating characters/],
    ["a closed template", `path "a/identity.entity.id}}" { policy = "deny" }`, /unbalanced templating characters/],
    ["a template twice closed", `path "a/{{identity.entity.id}}}}" { policy = "deny" }`, /unbalanced templating/],
    [
      "an unknown template",
      `path "a/{{identity.entity.nam}}" { policy = "deny" }`,
      /cannot name "identity.entity.nam"/,
    ],
    ["metadata without a key", `path "a/{{identity.entity.metadata}}" { policy = "deny" }`, /a template cannot name/],
    ["a key of a name", `path "a/{{identity.entity.name.x}}" { policy = "deny" }`, /a template cannot name/],
    [
      "an alias without a field",
      `path "a/{{identity.entity.aliases.x}}" { policy = "deny" }`,
      /a template cannot name/,
    ],
    ["a list of groups", `path "a/{{identity.entity.groups.names}}" { policy = "deny" }`, /a template cannot name/],
    ["a time", `path "a/{{time.now}}" { policy = "deny" }`, /a template cannot name "time.now"/],
    ["a path without a pattern", `path { policy = "read" }`, /a path block needs a pattern/],
    ["a namespace without a label", `\nnamespace { policy = "read" }`, /^Invalid namespace name: "" .*\(line 2\)$/],
    ["a host_volume without a label", `host_volume { policy = "read" }`, /^Invalid host_volume name: ""/],
    ["a node_pool without a label", `node_pool { policy = "read" }`, /^Invalid node_pool name: ""/],
    ["a JSON namespace without a label", `{"namespace":{"policy":"read"}}`, /"policy" must be a block/],
    ["an empty namespace name", `namespace "" { policy = "read" }`, /^Invalid namespace name: ""/],
    ["an underscore in a namespace name", `namespace "a_b" { policy = "read" }`, /^Invalid namespace name: "a_b"/],
    ["a slash in a namespace name", `namespace "../a" { policy = "read" }`, /^Invalid namespace name/],
    ["a line break in a namespace name", `namespace "a\\n" { policy = "read" }`, /^Invalid namespace name: "a\\n"/],
    ["a namespace name of 129 signs", `namespace "${"a".repeat(129)}" { policy = "read" }`, /^Invalid namespace name/],
    ["a host volume name with a dot", `host_volume "a.b" { policy = "read" }`, /^Invalid host_volume name: "a.b"/],
    ["a node pool name with a dot", `node_pool "a.b" { policy = "read" }`, /^Invalid node_pool name: "a.b"/],
    ["a label where none belongs", `node "a" { policy = "read" }`, /"node" takes no label/],
    [
      "a variables path without a path",
      `namespace "a" { variables { path { capabilities = ["read"] } } }`,
      /needs a path/,
    ],
    ["a block that is a value", `path = "a"`, /"path" must be a block/],
    ["null for a block", `{"path":{"a":null}}`, /"a" must be a block/],
    ["capabilities that are a text", `path "a" { capabilities = "read" }`, /"capabilities" must be a list of texts/],
    ["capabilities that are numbers", `path "a" { capabilities = [1] }`, /"capabilities" must be a list of texts/],
    ["a policy that is a list", `path "a" { policy = ["read"] }`, /"policy" must be a text/],
    [
      "parameter values that are no list",
      `path "a" { allowed_parameters = { b = "c" } }`,
      /values of "b" must be a list/,
    ],
    [
      "a parameter value that is an object",
      `path "a" { allowed_parameters = { b = [{ c = 1 }] } }`,
      /a value of "b" must be/,
    ],
    ["a parameter twice", `path "a" { denied_parameters = { b = [] B = [] } }`, /parameter "b" stands twice/],
    [
      "values for all parameters",
      `path "a" { denied_parameters = { "*" = ["x"] } }`,
      /"\*" in path "a" takes no values/,
    ],
    [
      "required parameters that are a text",
      `path "a" { required_parameters = "b" }`,
      /"required_parameters" must be a list/,
    ],
    [
      "a negative wrapping time",
      `path "a" { min_wrapping_ttl = -1 }`,
      /error parsing min_wrapping_ttl: must be a length of time/,
    ],
    [
      "a wrapping time in words",
      `path "a" { max_wrapping_ttl = "soon" }`,
      /error parsing max_wrapping_ttl: must be a length of time/,
    ],
    [
      "wrapping times the wrong way round",
      `path "a" { min_wrapping_ttl = "2h" max_wrapping_ttl = "1h" }`,
      /max_wrapping_ttl cannot be less than min_wrapping_ttl/,
    ],
  ])("%s", (_, text, message) => {
    expect(refusal(text)).toMatch(message);
  });

  it.each(["mfa_methods = []", "control_group { }", 'expiration = "2030-01-01T00:00:00Z"'])(
    "a narrowing that has no effect here: %s",
    (key) => expect(refusal(`path "a" { policy = "read"\n ${key} }`)).toContain("is not supported, and without it"),
  );

  it("a huge name, which it truncates", () => {
    expect(refusal(`namespace "${"x".repeat(900_000)}" { }`).length).toBeLessThan(300);
  });
});
