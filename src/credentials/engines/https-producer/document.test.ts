import { describe, expect, it } from "vitest";
import cloudflare from "../../../../examples/producers/cloudflare-account-token.json" with { type: "json" };
import snowflake from "../../../../examples/producers/snowflake-access-token.json" with { type: "json" };
import { DefinitionBody } from "./document.ts";

type Json = Record<string, unknown>;

/** A definition with one member changed. @param at its place, such as `root.find.match`; undefined removes it */
function changed(at: string, value: unknown, given: object = cloudflare.producer): unknown {
  const copy = structuredClone(given) as Json;
  const path = at.split(".");
  const last = path.pop() as string;
  const parent = path.reduce<Json>((each, name) => each[name] as Json, copy);
  if (value === undefined) delete parent[last];
  else parent[last] = value;
  return copy;
}

const messages = (definition: unknown): string => {
  const parsed = DefinitionBody.safeParse(definition);
  return parsed.success ? "" : JSON.stringify(parsed.error.issues);
};

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, "x"]));
const oauth = { type: "oauth2", path: "/login", client_id: "i", client_secret: "{{secrets.token}}" };

/** One row for each rule of refusal. */
const REFUSED: readonly (readonly [at: string, value: unknown, error: string])[] = [
  // Shape.
  ["create", undefined, "create"],
  ["lease", undefined, "lease"],
  ["other", {}, "other"],
  ["create.wait", {}, "wait"],
  ["create.method", "GET", "method"],
  ["find.method", "DELETE", "method"],
  ["renew", { path: "/x", method: "GET" }, "method"],
  ["verify.method", "PUT", "method"],
  ["create.path", "x", "must be a path that begins with one /"],
  ["create.path", "//evil.example/x", "must be a path that begins with one /"],
  ["create.path", "/x?a=b", "must be a path that begins with one /"],
  ["create.path", `/${"x".repeat(2_048)}`, "must be at most 2048 characters"],
  ["create.query", many(33), "must be at most 32"],
  ["create.headers", { Host: "a" }, "must not have headers of the connection"],
  ["create.headers", { "a b": "x" }, "must have names of letters, digits and -"],
  ["create.headers", { a: "x\n" }, "must be printable"],
  ["create.expect", [], "expect"],
  ["create.expect", [99], "expect"],
  ["create.conflict", [600], "conflict"],
  ["create.expect", [201, 303], "must not be of redirects"],
  ["create.conflict", [302], "must not be of redirects"],
  ["revoke.gone", [304], "must not be of redirects"],
  ["create.capture", { id: "id" }, "must be a JSON pointer"],
  ["create.capture", { Id: "/id" }, "must have names of small letters"],
  ["find.pages", { query: "page", first: 2 }, "first"],
  ["find.pages", { query: "page", most: 201 }, "most"],
  ["find.pages", { query: "x".repeat(65) }, "must be at most 64 characters"],
  ["generate", { pin: { length: 15 } }, "must be at least 16"],
  ["generate", { pin: { length: 16, charset: "abc" } }, "must be 10 or more printable characters"],
  ["generate", Object.fromEntries([..."abcde"].map((name) => [name, { length: 16 }])), "must be at most 4"],
  ["orphans", "ignore", "orphans"],
  ["lag", "soon", "lag"],
  ["auth", { type: "basic" }, "auth"],
  ["auth", { ...oauth, other: "x" }, "other"],
  // Search and end.
  ["find", undefined, "find: required, unless orphans is expire"],
  ["revoke", undefined, "revoke: required with find"],
  ["orphans", "expire", "orphans: a definition with find or revoke searches for them"],
  ["create.json", { name: "fixed" }, "create: must have {{marker}}"],
  ["find.match", {}, "find: must have {{marker}} in match"],
  ["find.match", { "/name": "fixed" }, "find: must have {{marker}} in match"],
  ["find.items", undefined, "find: must have {{marker}} in match, or in its path without items"],
  ["find.capture", { other: "/x" }, "find.capture: create does not capture other"],
  ["lease.data", {}, "lease.data: must have a member"],
  // Names of placeholders.
  ["create.json", { a: "{{marker}} {{x" }, "has an open {{"],
  ["create.json", { a: "{{marker}}", b: "{{id}}" }, "create.json.b: has no value for {{id}}"],
  ["create.json", { "{{marker}}": "{{marker}}" }, "create: the name of a member has no placeholders"],
  ["create.form", { a: "b" }, "create: json and form exclude each other"],
  ["create.path", "/x/{{secrets.token}}", "create.path: has no value for {{secrets.token}}"],
  ["create.query", { a: "{{secrets.token}}" }, "create.query.a: has no value for {{secrets.token}}"],
  ["find.path", "/x/{{id}}", "find.path: has no value for {{id}}"],
  ["find.match", { "/name": "{{marker}}", "/a": "{{secrets.token}}" }, "find.match./a: has no value for"],
  ["revoke.path", "/x/{{token}}", "revoke.path: has no value for {{token}}"],
  ["renew", { path: "/x/{{token}}" }, "renew.path: has no value for {{token}}"],
  ["verify.headers", { a: "{{secrets.token}}" }, "verify.headers.a: has no value for {{secrets.token}}"],
  ["verify.path", "/x/{{data.token}}", "verify.path: has no value for {{data.token}}"],
  ["headers", { a: "{{marker}}" }, "headers.a: has no value for {{marker}}"],
  ["lease.data", { token: "{{unknown}}" }, "lease.data.token: has no value for {{unknown}}"],
  ["lease.data", { token: "{{secrets.token}}" }, "lease.data.token: has no value for {{secrets.token}}"],
  ["auth", { ...oauth, scope: "{{marker}}" }, "auth.scope: has no value for {{marker}}"],
  ["auth", { ...oauth, client_secret: "text" }, "auth: its key must be {{secrets.name}}"],
  ["auth", { type: "jwt_rs256", private_key: "{{vars.k}}", issuer: "i", subject: "s" }, "auth: its key must be"],
  // The replacement of secrets.
  ["root.find", undefined, "find"],
  ["root.revoke", undefined, "revoke"],
  ["root.secrets", undefined, "secrets"],
  ["root.other", {}, "other"],
  ["root.self.path", "self", "must be a path that begins with one /"],
  ["root.self.method", "PUT", "method"],
  ["root.ttl", "soon", "ttl"],
  ["root.create.json", { name: "fixed" }, "root.create: must have {{marker}}"],
  ["root.create.json", { name: "{{marker}}", end: "{{expires_at.iso}}" }, "root.ttl: required"],
  [
    "root",
    {
      ...cloudflare.producer.root,
      create: { ...cloudflare.producer.root.create, json: { name: "{{marker}}", end: "{{expires_at.iso}}" } },
      ttl: 0,
    },
    "root.ttl: required",
  ],
  ["root.create.capture", {}, "root.find.capture: create does not capture id"],
  ["root.find.match", {}, "root.find: must have {{marker}} in match"],
  ["root.find.path", "/x/{{secrets.token}}", "root.find.path: has no value for {{secrets.token}}"],
  ["root.revoke.path", "/x/{{token}}", "root.revoke.path: has no value for {{token}}"],
  ["root.revoke.path", "/x/{{marker}}", "root.revoke: must name what self captures"],
  ["root.self.path", "/x/{{marker}}", "root.self.path: has no value for {{marker}}"],
  ["root.self.capture", { other: "/x" }, "root.self.capture: must have the names of root.find.capture, as other"],
  ["root.secrets", { token: "{{unknown}}" }, "root.secrets.token: has no value for {{unknown}}"],
  ["root.secrets", { other: "{{token}}" }, "root.secrets: no call has {{secrets.other}}"],
  ["root.secrets", {}, "root.secrets: must have a member"],
];

describe("the definition of a producer", () => {
  it("is refused by each of its rules, with the place and the rule", () => {
    expect(messages(cloudflare.producer)).toBe("");
    for (const [at, value, error] of REFUSED) {
      expect(messages(changed(at, value)), `${at} ${JSON.stringify(value)}`).toContain(error);
    }
  });

  it("may be without a search only with an end at the provider", () => {
    const expiring = { ...cloudflare.producer, find: undefined, revoke: undefined, root: undefined, orphans: "expire" };
    expect(messages(expiring)).toBe("");
    const endless = changed("create.json", { name: "{{marker}}" }, expiring);
    expect(messages(endless)).toContain("create: must set the end at the provider");
    const nothing = changed("create.capture", {}, { ...expiring, lease: { data: { a: "b" } } });
    expect(messages(nothing)).toContain("create.capture: needs a result, or generate a value");
  });

  it("is JSON or its text", () => {
    expect(messages(JSON.stringify(snowflake.producer))).toBe("");
    expect(messages("{")).toContain("must be JSON");
  });
});
