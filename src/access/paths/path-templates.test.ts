import { describe, expect, it } from "vitest";
import type { PathRule } from "../../contracts/policies.ts";
import { capabilitiesFor, compilePaths } from "../../rights/path-rules.ts";
import { resolveTemplate, type TemplateSubject, templateProblem } from "./path-templates.ts";

const subject = (more: Partial<TemplateSubject> = {}): TemplateSubject => ({
  id: "e-1",
  name: "ann",
  metadata: { team: "ops" },
  aliases: [
    { accessor: "acc_1", id: "a-1", name: "ann@x", metadata: { repo: "org/app" }, customMetadata: { "a.b": "c" } },
  ],
  groups: [{ id: "g-1", name: "devs", metadata: { area: "north" } }],
  ...more,
});
const rule = (path: string, ...capabilities: PathRule["capabilities"]): PathRule => ({
  path,
  capabilities: capabilities.length > 0 ? capabilities : ["read"],
});
const resolved = (path: string, who: TemplateSubject | null = subject()) => resolveTemplate(rule(path), who)?.path;
const named = (name: string) => subject({ name });
const NAME = "{{identity.entity.name}}";

describe("a template", () => {
  it.each([
    ["kv/{{identity.entity.id}}/*", "kv/e-1/*"],
    ["kv/{{identity.entity.name}}", "kv/ann"],
    ["kv/{{ identity.entity.name }}/x", "kv/ann/x"],
    ["kv/{{identity.entity.metadata.team}}-{{identity.entity.name}}/+/x", "kv/ops-ann/+/x"],
    ["kv/{{identity.entity.aliases.acc_1.id}}", "kv/a-1"],
    ["kv/{{identity.entity.aliases.acc_1.name}}", "kv/ann@x"],
    ["kv/{{identity.entity.aliases.acc_1.metadata.repo}}/*", "kv/org/app/*"],
    ["kv/{{identity.entity.aliases.acc_1.custom_metadata.a.b}}", "kv/c"],
    ["kv/{{identity.groups.names.devs.id}}", "kv/g-1"],
    ["kv/{{identity.groups.ids.g-1.name}}", "kv/devs"],
    ["kv/{{identity.groups.names.devs.metadata.area}}/*", "kv/north/*"],
  ])("%s becomes %s", (path, expected) => {
    expect(templateProblem(path)).toBeNull();
    expect(resolved(path)).toBe(expected);
  });

  it.each([
    "kv/{{identity.entity.metadata.other}}",
    "kv/{{identity.entity.metadata.constructor}}",
    "kv/{{identity.entity.metadata.__proto__}}",
    "kv/{{identity.entity.aliases.acc_2.name}}",
    "kv/{{identity.entity.aliases.acc_1.metadata.toString}}",
    "kv/{{identity.groups.names.other.id}}",
    "kv/{{identity.groups.ids.devs.id}}",
  ])("%s has no value, so that its rule does not apply", (path) => {
    expect(templateProblem(path)).toBeNull();
    expect(resolved(path)).toBeUndefined();
    expect(resolveTemplate(rule(path, "deny"), subject())).toBeNull();
  });

  it("does not apply to a token without an entity", () => {
    expect(resolved("kv/{{identity.entity.id}}", null)).toBeUndefined();
  });

  it("does not apply with an empty value", () => {
    expect(resolved("kv/{{identity.entity.metadata.team}}", subject({ metadata: { team: "" } }))).toBeUndefined();
  });
});

describe("a hostile name", () => {
  /** Capabilities of an entity with a name, on a path, by `kv/NAME/*`. */
  const on = (name: string, path: string, pattern = `kv/${NAME}/*`, ...capabilities: PathRule["capabilities"]) => {
    const own = resolveTemplate(rule(pattern, ...capabilities), named(name));
    return capabilitiesFor(compilePaths([{ namespace: "", paths: own ? [own] : [] }]), path);
  };

  it.each([
    ["*", "kv/ann/x"],
    ["+", "kv/ann/x"],
    ["ann*", "kv/anna/x"],
    ["a*", "kv/ann/x"],
    ["ann/", "kv/ann/x"],
    ["ann/x", "kv/ann/x/y"],
    ["/", "kv/ann/x"],
    ["..", "kv/ann/x"],
    [".", "kv/ann/x"],
    ["../kv/ann", "kv/ann/x"],
    ["%2e%2e", "kv/ann/x"],
    ["", "kv/ann/x"],
    ["{{identity.entity.metadata.team}}", "kv/ops/x"],
    ["}}ann{{", "kv/ann/x"],
    ["\0", "kv/ann/x"],
    ["\0", "kv/+/x"],
    ["$&", "kv/ann/x"],
    ["$'", "kv/ann/x"],
  ])("%j grants nothing on %s", (name, path) => {
    expect(on(name, path)).toEqual(["deny"]);
    for (const pattern of [`kv/${NAME}`, `kv/+/${NAME}`, `kv/${NAME}/+`, `kv/x-${NAME}*`]) {
      expect(on(name, path, pattern), pattern).toEqual(["deny"]);
    }
  });

  it.each(["ann+test@x", "$&", "a b", "ann.b", "{x}", "Ä"])("%j names its own folder only", (name) => {
    expect(on(name, `kv/${name}/x`)).toEqual(["read"]);
    expect(on(name, "kv/ann/x")).toEqual(["deny"]);
  });

  it("does not become a wildcard by its place in a path", () => {
    for (const pattern of [`kv/${NAME}`, `kv/${NAME}*`, `kv/${NAME}/x`, `${NAME}`, `${NAME}/x`]) {
      expect(on("+", "kv/ann/x", pattern), pattern).toEqual(["deny"]);
      expect(on("+", "kv/x", pattern), pattern).toEqual(["deny"]);
    }
    const twice = `kv/${NAME}{{identity.entity.metadata.team}}`;
    expect(resolveTemplate(rule(twice), subject({ name: "+", metadata: { team: "+" } }))?.path).toBe("kv/++");
  });

  it("lets metadata span folders, and not lead out of them", () => {
    const path = "kv/{{identity.entity.metadata.team}}/*";
    const of = (team: string) => resolved(path, subject({ metadata: { team } }));
    expect(of("org/app")).toBe("kv/org/app/*");
    for (const team of ["org/", "/app", "org//app", "org/../x", "./x", "org/*", "*", "+", "org/+", "a*b"]) {
      expect(of(team), team).toBeUndefined();
    }
  });

  it("denies at least as much in a rule that denies", () => {
    const denied = (name: string) => {
      const own = resolveTemplate(rule(`kv/${NAME}/*`, "deny"), named(name));
      const rules = compilePaths([{ namespace: "", paths: [rule("kv/*"), ...(own ? [own] : [])] }]);
      return (path: string) => capabilitiesFor(rules, path);
    };
    expect(denied("ann/x")("kv/ann/x/y")).toEqual(["deny"]);
    expect(denied("ann/x")("kv/ann/y")).toEqual(["read"]);
    expect(denied("+")("kv/+/y")).toEqual(["deny"]);
    expect(denied("*")("kv/*/y")).toEqual(["deny"]);
    expect(denied("a*b")("kv/a*b/y")).toEqual(["deny"]);
  });
});
