import { describe, expect, it } from "vitest";
import type { RuleDefinition } from "../../contracts/sync-rules.ts";
import { matchesPathGlob, pathGlobProblem } from "./path-glob.ts";
import { defineRule, mismatch, RuleBody, removalsAllowed, staticPrefix } from "./rule.ts";

const rule = (body: object): RuleDefinition => {
  const defined = defineRule("web", RuleBody.parse({ mount: "kv", ...body }));
  if (!defined.ok) throw new Error(defined.message);
  return defined.value;
};
const refusal = (body: object): string => {
  const defined = defineRule("web", RuleBody.parse({ mount: "kv", ...body }));
  return defined.ok ? "" : (defined.message ?? "");
};

describe("a glob", () => {
  it.each([
    ["app/*", "app/db", true],
    ["app/*", "app/", true],
    ["app/*", "app/db/x", false],
    ["app/**", "app/db/x", true],
    ["**/db", "a/b/db", true],
    ["**/db", "db", false],
    ["a?c", "abc", true],
    ["a?c", "a/c", false],
    ["*", "a", true],
    ["*", "a/b", false],
    ["*/*", "a/b", true],
    ["**", "a/b/c", true],
    ["a*b*c", "axxbxxbyyc", true],
    ["a*b*c", "axxbxx/byyc", false],
    ["ab", "abc", false],
  ])("%s matches %s: %s", (glob, path, expected) => expect(matchesPathGlob(path, glob)).toBe(expected));

  it("costs no more for hostile input", () => {
    expect(matchesPathGlob("a".repeat(2_000), `${"*a".repeat(400)}b`)).toBe(false);
    expect(matchesPathGlob("a/".repeat(1_000), `${"**a".repeat(300)}b`)).toBe(false);
  });

  it.each(["", "/a", "a***", "a[b]", "{a,b}", "x".repeat(1_025)])("%j is refused", (glob) =>
    expect(pathGlobProblem(glob)).not.toBeNull(),
  );
});

describe("a rule", () => {
  it.each([
    [{}, /matches every secret of the mount; set match_all=true to do that, or narrow it by path_prefix/],
    [{ path_prefix: "", path_glob: [], metadata_selector: {} }, /set match_all=true/],
    [{ metadata_selector: { env: "prod" } }, /name a path_prefix too, or set match_all=true/],
    [{ path_glob: ["**"], metadata_selector: { env: "prod" } }, /name a path_prefix too/],
    [{ path_prefix: "a", metadata_selector: [{ key: "x", operator: "In" }] }, /need one or more: x/],
    [{ path_prefix: "a", metadata_selector: [{ key: "x", operator: "Exists", values: ["y"] }] }, /for In and NotIn/],
  ])("%j is refused", (body, message) => expect(refusal(body)).toMatch(message));

  it.each([
    { max_secrets: 0 },
    { max_secrets: 100_001 },
    { max_removals: "101%" },
    { max_removals: -1 },
    { path_glob: ["a["] },
    { metadata_selector: [{ key: "x", operator: "Like" }] },
    { on_unmatch: "keep" },
    { priority: "high" },
  ])("%j is no body", (body) =>
    expect(RuleBody.safeParse({ mount: "kv", match_all: true, ...body }).success).toBe(false),
  );

  it.each([
    [{ path_prefix: "app" }, "app", null, true],
    [{ path_prefix: "app" }, "app/db", null, true],
    [{ path_prefix: "app" }, "apple", null, false],
    [{ path_prefix: "app/" }, "app", null, false],
    [{ path_glob: ["a/*", "b/*"] }, "b/x", null, true],
    [{ path_glob: ["a/**"], exclude_glob: ["a/private/**"] }, "a/private/x", null, false],
    [{ path_prefix: "a", metadata_selector: { env: "prod" } }, "a/x", { env: "prod" }, true],
    [{ path_prefix: "a", metadata_selector: { env: "prod" } }, "a/x", { env: "test" }, false],
    [{ path_prefix: "a", metadata_selector: { env: "prod" } }, "a/x", null, false],
    [{ path_prefix: "a", metadata_selector: [{ key: "env", operator: "NotIn", values: ["prod"] }] }, "a/x", null, true],
    [{ path_prefix: "a", metadata_selector: [{ key: "env", operator: "Exists" }] }, "a/x", { env: "" }, true],
    [{ path_prefix: "a", metadata_selector: [{ key: "toString", operator: "Exists" }] }, "a/x", {}, false],
    [{ path_prefix: "a", metadata_selector: [{ key: "env", operator: "DoesNotExist" }] }, "a/x", null, true],
    [{ match_all: true }, "any/thing", null, true],
  ])("%j and %s with %j: %s", (body, path, metadata, expected) => {
    const customMetadata = metadata === null ? null : JSON.stringify(metadata);
    expect(mismatch(rule(body), { path, customMetadata }) === null).toBe(expected);
  });

  it("has the static prefix of what it can match", () => {
    expect(staticPrefix(rule({ path_glob: ["app/a*", "app/b*"] }))).toBe("app/");
    expect(staticPrefix(rule({ path_prefix: "app", path_glob: ["app/x/**"] }))).toBe("app/x/");
    expect(staticPrefix(rule({ path_prefix: "app", path_glob: ["**"] }))).toBe("app");
    expect(staticPrefix(rule({ match_all: true }))).toBe("");
  });

  it("allows removals up to a number or a percentage", () => {
    expect(removalsAllowed(rule({ match_all: true }), 50)).toBe(10);
    expect(removalsAllowed(rule({ match_all: true }), 1_000)).toBe(100);
    expect(removalsAllowed(rule({ match_all: true, max_removals: "0%" }), 1_000)).toBe(10);
    expect(removalsAllowed(rule({ match_all: true, max_removals: 0 }), 1_000)).toBe(0);
  });
});
