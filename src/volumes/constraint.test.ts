import { describe, expect, it } from "vitest";
import type { NodeProperties } from "../cluster/nodes/view.ts";
import { constraintFaults, constraintsMet } from "./constraint.ts";
import { versionRules } from "./version.ts";

const node: NodeProperties = {
  id: "0199-id",
  name: "n1",
  datacenter: "dc1",
  nodeClass: "big",
  pool: "default",
  attributes: { "kernel.name": "linux", "cpu.cores": "16", "os.version": "22.4.1", load: "1.5", tags: "ssd, gpu" },
  meta: { rack: "r1", release: "1.2.0-beta.2" },
};

/** Wraps node references in the syntax of constraints. */
const target = (text: string): string => (/^(attr|meta|node|job)\./.test(text) ? `\${${text}}` : text);

describe("constraintsMet", () => {
  it.each<[left: string, operand: string, right: string, met: boolean]>([
    ["attr.kernel.name", "=", "linux", true],
    ["attr.kernel.name", "==", "Linux", false],
    ["attr.kernel.name", "is", "linux", true],
    ["attr.none", "=", "linux", false],
    ["attr.none", "!=", "linux", true],
    ["attr.kernel.name", "!=", "linux", false],
    ["attr.kernel.name", "not", "windows", true],
    ["attr.cpu.cores", ">", "9", true],
    ["attr.cpu.cores", "<", "9", false],
    ["attr.cpu.cores", ">=", "16", true],
    ["attr.cpu.cores", "<=", "15", false],
    ["attr.load", "<", "10", true],
    ["attr.kernel.name", ">", "abc", true],
    ["attr.none", ">", "1", false],
    ["linux", "=", "attr.kernel.name", true],
    ["meta.rack", "=", "meta.rack", true],
    ["meta.rack", "!=", "meta.none", true],
    ["node.unique.id", "=", "0199-id", true],
    ["node.unique.name", "=", "n1", true],
    ["node.datacenter", "=", "dc1", true],
    ["node.class", "=", "big", true],
    ["node.pool", "=", "gpu", false],
    ["attr.kernel.name", "regexp", "^lin", true],
    ["attr.kernel.name", "regexp", "^in", false],
    ["attr.none", "regexp", ".*", false],
    ["attr.os.version", "version", ">= 22.4, < 23", true],
    ["attr.os.version", "version", "~> 22.3", true],
    ["attr.os.version", "version", "~> 22.3.0", false],
    ["meta.release", "version", ">= 1.1", false],
    ["meta.release", "semver", ">= 1.1.0", true],
    ["meta.release", "semver", ">= 1.2.0", false],
    ["attr.tags", "set_contains", "gpu,ssd", true],
    ["attr.tags", "set_contains_all", "gpu,hdd", false],
    ["attr.tags", "set_contains_any", "gpu,hdd", true],
    ["attr.tags", "is_set", "", true],
    ["attr.none", "is_set", "", false],
    ["attr.none", "is_not_set", "", true],
    ["meta.toString", "is_set", "", false],
  ])("%s %s %s: %s", (left, Operand, right, met) => {
    const [LTarget, RTarget] = [target(left), target(right)];
    expect(constraintFaults({ LTarget, Operand, RTarget })).toEqual([]);
    expect(constraintsMet([{ LTarget, Operand, RTarget }])(node)).toBe(met);
  });

  it("requires every constraint", () => {
    const linux = { LTarget: target("attr.kernel.name"), Operand: "=", RTarget: "linux" };
    const rack = { LTarget: target("meta.rack"), Operand: "=", RTarget: "r2" };
    expect([[linux], [rack], [linux, rack], []].map((each) => constraintsMet(each)(node))).toEqual([
      true,
      false,
      false,
      true,
    ]);
  });
});

describe("constraintFaults", () => {
  it.each([
    ["", "=", "x", ["no attribute provided but is required by operator"]],
    ["attr.a", "", "x", ["missing constraint operand"]],
    ["attr.a", "~", "x", ['unknown operator "~"']],
    ["attr.a", "=", "", ['operator "=" requires an RTarget']],
    ["attr.a", "is_set", "x", ['operator "is_set" takes no RTarget']],
    ["attr.a", "version", "soon", ['"soon" is no version constraint']],
    ["attr.a", "semver", "1.2", ['"1.2" is no version constraint']],
    ["attr.a", "regexp", "(", [expect.stringContaining('failed to compile regular expression "("')]],
    ["attr.a", "regexp", "(?=a)", [expect.stringContaining("look-around is not supported")]],
    ["job.name", "=", "x", ['"$\u007bjob.name}" refers to nothing that a node has']],
    ["node.toString", "=", "x", ['"$\u007bnode.toString}" refers to nothing that a node has']],
    ["", "toString", "", ['unknown operator "toString"', "no attribute provided but is required by operator"]],
  ])("%s %s %s", (left, Operand, RTarget, faults) => {
    const LTarget = target(left);
    expect(constraintFaults({ LTarget, Operand, RTarget })).toEqual(faults);
    expect(constraintsMet([{ LTarget, Operand, RTarget }])(node)).toBe(false);
  });
});

describe("versionRules", () => {
  it.each<[rules: string, kind: "loose" | "semver", version: string, kept: boolean]>([
    ["1.2", "loose", "v1.2.0", true],
    ["= 1.2", "loose", "1.2.1", false],
    ["!= 1.2", "loose", "1.3", true],
    ["> 1.2.3", "loose", "1.10", true],
    ["~> 1", "loose", "1.9", true],
    ["~> 1", "loose", "2.0", false],
    ["~> 1.2.3", "loose", "1.2.9", true],
    ["~> 1.2.3", "loose", "1.3.0", false],
    [">= 1.0-rc1", "loose", "1.0-rc2", true],
    ["> 1.0", "loose", "5.15.0-91-generic", false],
    ["> 1.0.0-alpha", "semver", "1.0.0-alpha.1", true],
    ["> 1.0.0-alpha.1", "semver", "1.0.0-alpha.beta", true],
    ["< 1.0.0", "semver", "1.0.0-rc.1", true],
    ["= 1.0.0", "semver", "1.0.0+build", true],
    [">= 1.0.0", "semver", "v1.0.0", false],
    [">= 1.0", "loose", "soon", false],
  ])("%s (%s): %s is %s", (rules, kind, version, kept) => expect(versionRules(rules, kind)?.(version)).toBe(kept));

  it("rejects long input in constant time", () => {
    expect(versionRules("1.".repeat(10_000), "loose")).toBeNull();
    expect(versionRules(Array.from({ length: 17 }, () => "1").join(), "loose")).toBeNull();
    expect(versionRules(">= 1", "loose")?.("1".repeat(10_000))).toBe(false);
  });
});
