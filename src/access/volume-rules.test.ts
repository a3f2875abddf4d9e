import { describe, expect, it } from "vitest";
import type { Enforcement, GoverningRule } from "../contracts/policies.ts";
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
    ["lets a plugin of its list be", { plugins: ["zfs", "mkdir"] }, {}, true],
    ["refuses any other plugin", { plugins: ["zfs"] }, {}, false],
    ["does not take a plugin's name for a pattern", { plugins: ["mk.*"] }, {}, false],
    ["about plugins has nothing to say where none is used", { plugins: ["zfs"] }, { pluginId: "" }, true],
    ["lets a name be that matches", { namePattern: "^d" }, {}, true],
    ["finds its pattern anywhere in a name", { namePattern: "b" }, {}, true],
    ["refuses a name that does not match", { namePattern: "^b" }, {}, false],
    ["sees letters as they are written", { namePattern: "DB" }, {}, false],
    ["lets the largest size be that it names", { maxCapacity: 100 }, {}, true],
    ["refuses one byte more", { maxCapacity: 99 }, {}, false],
    ["refuses a volume that may grow to anything", { maxCapacity: 100 }, { capacityMax: 0 }, false],
    ["lets a pool of its list be", { nodePools: ["gpu", "default"] }, {}, true],
    ["refuses any other pool", { nodePools: ["gpu"] }, {}, false],
    ["refuses a volume that may come into any pool", { nodePools: ["default"] }, { nodePool: "" }, false],
    ["about pools has nothing to say where there are none", { nodePools: ["gpu"] }, { nodePool: null }, true],
    ["asks for all that it names", { plugins: ["mkdir"], maxCapacity: 1 }, {}, false],
    ["asks for nothing else", {}, { pluginId: "x", capacityMax: 0, nodePool: "" }, true],
    ["is for its namespaces", { plugins: ["zfs"], namespaces: ["default"] }, {}, false],
    ["is for no other namespace", { plugins: ["zfs"], namespaces: ["prod"] }, {}, true],
    ["is for all namespaces that its globs match", { plugins: ["zfs"], namespaces: ["prod", "def*"] }, {}, false],
    [
      "with a glob is for no other namespace",
      { plugins: ["zfs"], namespaces: ["prod-*"] },
      { namespace: "prod" },
      true,
    ],
    ["is for every namespace when it names none", { plugins: ["zfs"] }, { namespace: "anywhere" }, false],
  ])("%s", (_what, asked, volume, expected) => {
    expect(passes(asked, volume)).toBe(expected);
  });
});

describe("what becomes of a volume that breaks a rule", () => {
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

  it("is told of every rule that denies it, and all that each asks for", () => {
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

  it("is told in few words, however many rules there are and however much they list", () => {
    const plugins = Array.from({ length: 100 }, (_, at) => `plugin-${at}`);
    const rules = Array.from({ length: 200 }, (_, at) => rule({ name: `r${at}`, plugins }));
    const judged = checkVolume(rules, facts, false);
    expect(!judged.ok && judged.message.endsWith("and 180 more")).toBe(true);
    expect(!judged.ok && judged.message.length).toBeLessThan(20_000);
  });

  it("is nothing where there are no rules", () => {
    expect(checkVolume([], facts, false)).toEqual({ ok: true, value: [] });
  });
});
