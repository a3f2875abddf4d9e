import { describe, expect, it } from "vitest";
import { areaOf } from "./areas.ts";
import { decodePath, encodePath, parseTarget } from "./target.ts";

const read = (method: string, path: string, headers: Record<string, string> = {}) => {
  const url = new URL(`https://x${path}`);
  return parseTarget(new Request(url, { method, headers }), url, areaOf(url.pathname));
};

describe("a path", () => {
  it.each([
    ["/v1/kv/data/a", "/kv/data/a", "kv/data/a"],
    ["/kv/data/a", "/kv/data/a", "kv/data/a"],
    ["//v1//kv///data//a/", "/kv/data/a/", "kv/data/a/"],
    ["/v1", "/", ""],
    ["/v1/", "/", ""],
    ["/v1x/a", "/v1x/a", "v1x/a"],
    ["/v1/v1/a", "/v1/a", "v1/a"],
    ["/v1/s%79s/mounts", "/sys/mounts", "sys/mounts"],
    ["/v1/kv/data/a%2Fb", "/kv/data/a%2Fb", "kv/data/a/b"],
    ["/v1/kv/data/%25", "/kv/data/%25", "kv/data/%"],
    ["/v1/kv/data/a+b %C3%A9", "/kv/data/a%2Bb%20%C3%A9", "kv/data/a+b é"],
  ])("%s is routed as %s and authorized as %s", (path, route, judged) => {
    expect(read("GET", path)).toMatchObject({ route, path: judged });
  });

  it.each([
    ["a%00", /control characters/],
    ["a%0d%0aX: y", /control characters/],
    ["a%C2%85", /control characters/],
    ["%E2%80%A9", /control characters/],
    ["a/..%2Fb", /\.\./],
    ["%2E%2E%2F", /\.\./],
    [".", /\.\./],
    ["a%2F%2Fb", /empty segments/],
    ["%2Fa", /empty segments/],
    ["%", /percent-encoding/],
    ["%u0041", /percent-encoding/],
    ["%ED%A0%80", /percent-encoding/],
    ["%C0%AE%C0%AE/", /percent-encoding/],
  ])("%s is refused", (encoded, because) => {
    expect(() => decodePath(encoded)).toThrow(because);
  });

  it("is decoded once", () => {
    expect(decodePath("%252e%252e%252fa")).toBe("%2e%2e%2fa");
  });

  it("is unchanged after encoding and decoding", () => {
    for (const path of ["a/b c/é%/", "", "?#[]@!$&'()*+,;="]) expect(decodePath(encodePath(path))).toBe(path);
  });

  it("has at most 4096 characters", () => {
    expect(() => read("GET", `/v1/${"a".repeat(4_095)}`)).not.toThrow();
    expect(() => read("GET", `/v1/${"a".repeat(4_096)}`)).toThrow(/longer than 4096/);
  });
});

describe("the operation of a request", () => {
  it.each([
    ["GET", "/v1/kv/a", {}, "GET"],
    ["HEAD", "/v1/kv/a", {}, "GET"],
    ["PUT", "/v1/kv/a", {}, "POST"],
    ["GET", "/v1/kv/a?list=True", {}, "LIST"],
    ["GET", "/v1/kv/a?scan=1", {}, "SCAN"],
    ["GET", "/v1/kv/a", { "X-HTTP-Method-Override": "scan" }, "SCAN"],
    ["GET", "/v1/kv/a?list=false", {}, "GET"],
    ["GET", "/v1/kv/a", { "X-HTTP-Method-Override": "list" }, "LIST"],
    ["GET", "/v1/kv/a", { "X-HTTP-Method-Override": "DELETE" }, "GET"],
    ["POST", "/v1/kv/a?list=true", { "X-HTTP-Method-Override": "LIST" }, "POST"],
    ["GET", "/v1/nodes?list=true", {}, "GET"],
    ["PROPFIND", "/v1/kv/a", {}, "OTHER"],
  ])("%s %s with %j is %s", (method, path, headers, verb) => {
    expect(read(method, path, headers).verb).toBe(verb);
  });
});

describe("the API", () => {
  it.each([
    ["/v1/acl/policies", "cluster"],
    ["//v1//event/stream", "cluster"],
    ["/v1/volumes/%zz", "cluster"],
    ["/acl/policies", "secrets"],
    ["/v1/acls", "secrets"],
    ["/v1/sys/mounts", "secrets"],
    ["/v1", "secrets"],
    ["/", "secrets"],
  ])("of %s is %s", (path, area) => {
    expect(areaOf(path)).toBe(area);
  });
});
