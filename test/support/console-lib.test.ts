import { describe, expect, it } from "vitest";
import { mergePatch } from "../../console/src/lib/merge-patch.ts";
import { changedBody, formOf } from "../../console/src/lib/settings.ts";
import { encodeSegments, isResolved, pathOf, rightOf } from "../../console/src/lib/wire.ts";

describe("paths of requests", () => {
  it("are named as policies name them, with any character", () => {
    for (const path of ["secret/data/a@b:c+d=e,f$g&h;i?j#k%l", "team/kv/100%", "azure/creds/ünï"]) {
      const target = `/v1/${encodeSegments(path)}?version=1`;
      expect(pathOf(target)).toBe(path);
      expect(rightOf({ verb: "PATCH", target, namespace: "" })).toEqual({ path, capability: "patch" });
    }
    const list = { verb: "GET", target: "/v1/secret/metadata/a%3Fb?list=true", namespace: "" } as const;
    expect(rightOf(list)).toEqual({ path: "secret/metadata/a?b", capability: "list" });
  });

  it("are told apart from those that a browser resolves to another path", () => {
    for (const path of ["a/..", "../a", "a/./b", ".", "..", "a/../../b"])
      expect(isResolved(`/v1/${encodeSegments(path)}`), path).toBe(true);
    for (const target of ["/v1/a/%2e%2E/b", "/v1/a/.%2e?x=1"]) expect(isResolved(target), target).toBe(true);
    for (const path of [".env", "a..b", "...", "a/..b", "%2e%2e/a", "a/b.."])
      expect(isResolved(`/v1/${encodeSegments(path)}?after=${encodeURIComponent("/../")}`), path).toBe(false);
  });
});

describe("the patch of a secret", () => {
  it.each([
    [{ a: "1", b: "2" }, { a: "1", b: "3" }, { b: "3" }],
    [{ a: "1", b: "2" }, { a: "1" }, { b: null }],
    [{ conf: { a: 1, b: { c: 2, d: 3 } } }, { conf: { b: { c: 4 } } }, { conf: { a: null, b: { c: 4, d: null } } }],
    [{ conf: { a: 1 } }, { conf: {} }, { conf: { a: null } }],
    [{ conf: "text" }, { conf: { a: { b: 1 } } }, { conf: { a: { b: 1 } } }],
    [{ list: [1, { a: null }] }, { list: [{ a: null }] }, { list: [{ a: null }] }],
    [{ none: null }, { none: null }, {}],
    [{}, { constructor: "x", toString: "y" }, { constructor: "x", toString: "y" }],
  ])("from %j to %j is %j", (before, after, patch) => {
    expect(mergePatch(before, after)).toEqual(patch);
  });

  it("is refused for a null that is new, and names it", () => {
    for (const [before, after, name] of [
      [{ a: "1" }, { a: null }, "a"],
      [{ a: "1" }, { a: { b: null } }, "a.b"],
      [{ a: { b: 1 } }, { a: { b: 1, c: null } }, "a.c"],
    ] as const)
      expect(() => mergePatch(before, after), name).toThrow(`${name} is null`);
  });

  it("keeps the digits of numbers", () => {
    const big = (digits: string): unknown => (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(digits);
    const patch = mergePatch({ n: big("123456789012345678901") }, { n: big("123456789012345678902") });
    expect(JSON.stringify(patch)).toBe('{"n":123456789012345678902}');
  });
});

describe("stored settings in a form", () => {
  const stored = { on: true, off: false, none: 0, some: 5, text: "t", empty: "", unset: null, list: ["a"] };

  it("are without empty ones, which a write that changes some settings leaves as they are", () => {
    expect(formOf(stored)).toEqual({ on: true, some: "5", text: "t", list: ["a"] });
    expect(changedBody(formOf(stored), { on: false })).toEqual({ on: false, some: "", text: "", list: [] });
  });

  it("keep false and 0 for a write that replaces all: their defaults may be others", () => {
    expect(formOf(stored, true)).toEqual({ on: true, off: false, none: "0", some: "5", text: "t", list: ["a"] });
  });
});
