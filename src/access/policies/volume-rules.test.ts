import { describe, expect, it } from "vitest";
import type { Enforcement, GoverningRule } from "../../contracts/policies.ts";
import { checkVolume, type VolumeProperties } from "./volume-rules.ts";

const facts: VolumeProperties = {
  name: "db",
  namespace: "default",
  pluginId: "mkdir",
  capacityMax: 100,
  nodePool: "default",
};

const rule = (more: Partial<GoverningRule> = {}): GoverningRule => ({
  policy: "storage",
  name: "size",
  enforcement: "hard-mandatory",
  ...more,
});

const passes = (asked: Partial<GoverningRule>, volume: Partial<VolumeProperties> = {}) =>
  checkVolume([rule(asked)], { ...facts, ...volume }, false).ok;

describe("a rule", () => {
  it.each<[what: string, rule: Partial<GoverningRule>, volume: Partial<VolumeProperties>, passes: boolean]>([
    ["allows a listed plugin", { plugins: ["zfs", "mkdir"] }, {}, true],
    ["refuses any other plugin", { plugins: ["zfs"] }, {}, false],
    ["does not treat a plugin's name as a pattern", { plugins: ["mk.*"] }, {}, false],
    ["about plugins does not apply without a plugin", { plugins: ["zfs"] }, { pluginId: "" }, true],
    ["allows a matching name", { namePattern: "^d" }, {}, true],
    ["matches its pattern anywhere in a name", { namePattern: "b" }, {}, true],
    ["refuses a name that does not match", { namePattern: "^b" }, {}, false],
    ["matches names with case", { namePattern: "DB" }, {}, false],
    ["allows the maximum size", { maxCapacity: 100 }, {}, true],
    ["refuses one byte above the maximum", { maxCapacity: 99 }, {}, false],
    ["refuses a volume without a maximum", { maxCapacity: 100 }, { capacityMax: 0 }, false],
    ["allows a listed pool", { nodePools: ["gpu", "default"] }, {}, true],
    ["refuses any other pool", { nodePools: ["gpu"] }, {}, false],
    ["refuses a volume for any pool", { nodePools: ["default"] }, { nodePool: "" }, false],
    ["about pools does not apply without pools", { nodePools: ["gpu"] }, { nodePool: null }, true],
    ["requires all its fields", { plugins: ["mkdir"], maxCapacity: 1 }, {}, false],
    ["requires nothing else", {}, { pluginId: "x", capacityMax: 0, nodePool: "" }, true],
    ["applies to its namespaces", { plugins: ["zfs"], namespaces: ["default"] }, {}, false],
    ["does not apply to other namespaces", { plugins: ["zfs"], namespaces: ["prod"] }, {}, true],
    ["applies to all namespaces that match its globs", { plugins: ["zfs"], namespaces: ["prod", "def*"] }, {}, false],
    [
      "with a glob is for no other namespace",
      { plugins: ["zfs"], namespaces: ["prod-*"] },
      { namespace: "prod" },
      true,
    ],
    ["applies to every namespace without a list", { plugins: ["zfs"] }, { namespace: "anywhere" }, false],
  ])("%s", (_what, asked, volume, expected) => {
    expect(passes(asked, volume)).toBe(expected);
  });
});

describe("a volume that breaks a rule", () => {
  const told = 'policy "storage", rule "size"';
  const asks = 'plugin must be "zfs"';

  it.each<[Enforcement, override: boolean, becomes: "denied" | "warned"]>([
    ["advisory", false, "warned"],
    ["advisory", true, "warned"],
    ["soft-mandatory", false, "denied"],
    ["soft-mandatory", true, "warned"],
    ["hard-mandatory", false, "denied"],
    ["hard-mandatory", true, "denied"],
  ])("%s, override %s: it is %s", (enforcement, override, becomes) => {
    const said = `${told} (${enforcement}): ${asks}`;
    expect(checkVolume([rule({ enforcement, plugins: ["zfs"] })], facts, override)).toEqual(
      becomes === "warned"
        ? { ok: true, value: [said] }
        : { ok: false, reason: "denied", message: `volume denied: ${said}` },
    );
  });

  it("is refused with every denying rule and all its requirements", () => {
    const rules = [
      rule({ name: "one", plugins: ["zfs", "lvm"], namePattern: "^x" }),
      rule({ name: "two", enforcement: "advisory", maxCapacity: 1 }),
      rule({ policy: "pools", name: "three", enforcement: "soft-mandatory", nodePools: ["gpu"] }),
      rule({ name: "four", maxCapacity: 1 }),
    ];
    expect(checkVolume(rules, { ...facts, nodePool: "" }, false)).toMatchObject({
      message:
        'volume denied: policy "storage", rule "one" (hard-mandatory): plugin must be one of "zfs", "lvm" and name must match ^x; ' +
        'policy "pools", rule "three" (soft-mandatory): node pool must be "gpu", by its name or that of a node; ' +
        'policy "storage", rule "four" (hard-mandatory): capacity_max must be given, and at most 1 bytes',
    });
  });

  it("is refused with a bounded message, for many rules and long lists", () => {
    const plugins = Array.from({ length: 100 }, (_, at) => `plugin-${at}`);
    const rules = Array.from({ length: 200 }, (_, at) => rule({ name: `r${at}`, plugins }));
    const judged = checkVolume(rules, facts, false);
    expect(!judged.ok && judged.message.endsWith("and 180 more")).toBe(true);
    expect(!judged.ok && judged.message.length).toBeLessThan(20_000);
  });

  it("has no warnings without rules", () => {
    expect(checkVolume([], facts, false)).toEqual({ ok: true, value: [] });
  });
});
