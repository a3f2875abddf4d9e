import { describe, expect, it } from "vitest";
import { textSteps } from "../../test/text-steps.ts";
import type { ParameterConstraints } from "../contracts/policies.ts";
import { matchesGlob } from "../lib/glob.ts";
import { checkParameters, compilePaths, ruleFor } from "./path-rules.ts";

describe("parameters", () => {
  const check = (constraints: ParameterConstraints, data: Record<string, unknown>) => {
    const result = checkParameters(constraints, data);
    return result.ok ? "ok" : result.message;
  };
  const named = (values: Record<string, (string | number | boolean | string[])[]>) =>
    Object.entries(values).map(([name, list]) => ({ name, values: list }));
  const allow = (values: Record<string, (string | number | boolean | string[])[]>) => ({
    allowedParameters: named(values),
  });
  const deny = (values: Record<string, (string | number | boolean | string[])[]>) => ({
    deniedParameters: named(values),
  });
  const OK = "ok";

  it.each<[string, ParameterConstraints, Record<string, unknown>, string]>([
    ["allows any parameter without constraints", {}, { a: 1 }, OK],
    ["allows a listed parameter", allow({ a: [] }), { a: "x" }, OK],
    ["refuses an unlisted parameter", allow({ a: [] }), { b: "x" }, `parameter "b" is not allowed by policy`],
    ["allows a request without parameters", allow({ a: ["x"] }), {}, OK],
    ["ignores the case of names", allow({ a: [] }), { A: "x" }, OK],
    ["allows all other parameters with *", allow({ a: ["x"], "*": [] }), { b: "y" }, OK],
    [
      "* does not widen a named one",
      allow({ a: ["x"], "*": [] }),
      { a: "y" },
      `parameter "a" has a value not allowed by policy`,
    ],
    ["refuses a denied parameter", deny({ a: [] }), { A: 1 }, `parameter "A" is denied by policy`],
    ["allows parameters that are not denied", deny({ a: [] }), { b: 1 }, OK],
    [
      "denied wins over allowed",
      { ...allow({ a: [] }), ...deny({ a: [] }) },
      { a: 1 },
      `parameter "a" is denied by policy`,
    ],
    [
      "denied values win over allowed",
      { ...allow({ "*": [] }), ...deny({ a: ["x"] }) },
      { a: "x" },
      `parameter "a" has a value denied by policy`,
    ],
    ["allows values that are not denied", deny({ a: ["x"] }), { a: "y" }, OK],
    [
      "* denies every one",
      { ...allow({ a: [] }), ...deny({ "*": [] }) },
      { a: 1 },
      `parameter "a" is denied by policy`,
    ],
    ["a glob at the end", allow({ a: ["dev-*"] }), { a: "dev-1" }, OK],
    ["a glob at the start", allow({ a: ["*-dev"] }), { a: "x-dev" }, OK],
    ["a glob at both", allow({ a: ["*dev*"] }), { a: "a-dev-b" }, OK],
    [
      "a glob that does not match",
      allow({ a: ["dev-*"] }),
      { a: "prod-dev-" },
      `parameter "a" has a value not allowed by policy`,
    ],
    ["a number for a number", allow({ a: [5] }), { a: 5 }, OK],
    [
      "a text for a number, as routes take it",
      deny({ a: [5] }),
      { a: "5" },
      `parameter "a" has a value denied by policy`,
    ],
    ["a boolean for a boolean", allow({ a: [true] }), { a: true }, OK],
    ["another boolean", allow({ a: [true] }), { a: false }, `parameter "a" has a value not allowed by policy`],
    ["null, where it is listed", { allowedParameters: [{ name: "a", values: [null] }] }, { a: null }, OK],
    ["null is not the text", allow({ a: ["null"] }), { a: null }, `parameter "a" has a value not allowed by policy`],
    [
      "an object is never a listed value",
      allow({ a: ["*"] }),
      { a: {} },
      `parameter "a" has a value not allowed by policy`,
    ],
    ["a list equal to a listed list", allow({ a: [["x", "y*"]] }), { a: ["x", "yz"] }, OK],
    [
      "a list in another order",
      allow({ a: [["x", "y"]] }),
      { a: ["y", "x"] },
      `parameter "a" has a value not allowed by policy`,
    ],
    [
      "a list that goes on",
      allow({ a: [["x"]] }),
      { a: ["x", "z"] },
      `parameter "a" has a value not allowed by policy`,
    ],
    ["a list of listed values", allow({ a: ["x", "y"] }), { a: ["y", "x"] }, OK],
    [
      "a list with one value too many",
      allow({ a: ["x"] }),
      { a: ["x", "z"] },
      `parameter "a" has a value not allowed by policy`,
    ],
    ["an empty list where values are listed, as upstream", allow({ a: ["x"] }), { a: [] }, OK],
    ["an empty text where values are listed, as upstream", allow({ a: ["x"] }), { a: "" }, OK],
    ["a text with commas whose parts are listed", allow({ a: ["x", "y"] }), { a: "y, x" }, OK],
    [
      "a text with commas with one part too many",
      allow({ a: ["x"] }),
      { a: "x,z" },
      `parameter "a" has a value not allowed by policy`,
    ],
    ["a text with commas that is listed itself", allow({ a: ["x,z"] }), { a: "x,z" }, OK],
    [
      "a denied value in a text with commas",
      deny({ a: ["root"] }),
      { a: "default, root" },
      `parameter "a" has a value denied by policy`,
    ],
    [
      "a denied value inside a list",
      deny({ a: ["root"] }),
      { a: ["x", "root"] },
      `parameter "a" has a value denied by policy`,
    ],
    [
      "a denied value inside two lists",
      deny({ a: ["root"] }),
      { a: [["root"]] },
      `parameter "a" has a value denied by policy`,
    ],
    ["a required one that is there", { requiredParameters: ["a"] }, { A: null }, OK],
    [
      "a required one that is missing",
      { requiredParameters: ["a", "b"] },
      { a: 1 },
      `parameter "b" is required by policy`,
    ],
    [
      "a required one that only objects have",
      { requiredParameters: ["constructor"] },
      {},
      `parameter "constructor" is required by policy`,
    ],
    [
      "an allowed one that only objects have",
      allow({ a: [] }),
      { constructor: 1 },
      `parameter "constructor" is not allowed by policy`,
    ],
    [
      "one named __proto__",
      allow({ a: [] }),
      JSON.parse(`{"__proto__":1}`),
      `parameter "__proto__" is not allowed by policy`,
    ],
  ])("%s", (_, constraints, data, expected) => {
    expect(check(constraints, data)).toBe(expected);
  });

  it("a refusal names the parameter in the caller's spelling", () => {
    expect(checkParameters(deny({ ttl: [] }), { TTL: 1 })).toMatchObject({ ok: false, parameter: "TTL" });
  });
});

it("any value in one policy allows any value, in any order of policies", () => {
  const [any, listed] = [
    { deniedParameters: [{ name: "ttl", values: [] }] },
    { deniedParameters: [{ name: "ttl", values: ["1h"] }] },
  ];
  for (const constraints of [
    [any, listed],
    [listed, any],
  ]) {
    const paths = constraints.map((each) => ({ path: "a", capabilities: ["update"] as const, ...each }));
    const rule = ruleFor(compilePaths([{ namespace: "", paths }]), "a");
    expect(checkParameters(rule ?? {}, { ttl: "2h" })).toMatchObject({ ok: false, parameter: "ttl" });
  }
});

describe("a glob", () => {
  it.each([
    ["", "", true],
    ["a", "", false],
    ["", "*", true],
    ["abc", "a*c", true],
    ["ac", "a*c", true],
    ["aba", "ab*ba", false],
    ["abba", "ab*ba", true],
    ["a-b-c-d", "a*b*d", true],
    ["a-c-b", "a*b*c", false],
    ["x", "**", true],
    ["a.c", "a?c", false],
  ])("matches %j against %j: %s", (text, glob, expected) => expect(matchesGlob(text, glob)).toBe(expected));

  it("has bounded cost for hostile patterns", () => {
    const { value, steps } = textSteps(() => matchesGlob("a".repeat(20_000), `${"a*".repeat(10_000)}b`));
    expect(value).toBe(false);
    expect(steps).toBeLessThan(4 * 40_000);
  });
});
