import { describe, expect, it } from "vitest";
import { FIELDS, VOLUME, type Volume } from "../../../test/filter-sample.ts";
import { parseLossless } from "../json.ts";
import { compileFilter } from "./compile.ts";
import * as kind from "./kinds.ts";

const matches = (expression: string, row: Volume = VOLUME): boolean => compileFilter<Volume>(expression, FIELDS)(row);

/** Each expression holds, and its negation does not. */
const holds = (expressions: readonly string[]) => {
  it.each(expressions)("%s", (expression) => {
    expect(matches(expression)).toBe(true);
    expect(matches(`not (${expression})`)).toBe(false);
  });
};

describe("a comparison is true:", () => {
  holds([
    'ID == "vol-1"',
    "ID==`vol-1`",
    'Name == "db one"',
    "PluginID == ebs",
    "PluginID != efs",
    "Capacity == 1048576",
    'Capacity == "0x100000"',
    'Capacity == "0b1_0000_0000_0000_0000_0000"',
    'Capacity == "0o4000000"',
    'Capacity == "04000000"',
    'Capacity == "+1048576"',
    "Capacity != 1",
    "CreateTime == 1736191993011000000",
    "Delta == -5",
    "Ratio == 0.75",
    'Ratio == "75e-2"',
    "Ratio != 1",
    "Schedulable == true",
    "Schedulable == 1",
    "Schedulable == T",
    "Schedulable != FALSE",
    "Limits.FSType == ext4",
    "Limits.Depth == 3",
    'Parameters["tier"] == gold',
    "Parameters[`tier`] == gold",
    "Parameters.tier == gold",
    'Parameters["my.key"] == x',
    'Parameters["a/b"] == c',
    '"/Parameters/tier" == gold',
    '"/Parameters/a~1b" == c',
    '"/Parameters/my.key" == x',
    "Ports.0 == 80",
    "Topologies.1.Segments.rack == R2",
    'Topologies["1"].Segments["rack"] == "R2"',
    'Version == "1.2.3"',
  ]);
});

describe("a quoted value is literal, also when it looks like a path", () => {
  holds(['HostPath == "/srv/data"', "HostPath == `/srv/data`", 'HostPath != "srv/data"']);
});

describe("a dotted bare value is joined with dots", () => {
  it("together with its keys in brackets", () => {
    const row = { ...VOLUME, Name: "a.b.c" };
    expect(matches("Name == a.b.c", row)).toBe(true);
    expect(matches('Name == a["b"].c', row)).toBe(true);
  });
});

describe("a membership test is true:", () => {
  holds([
    "a in Tags",
    '"b-c" in Tags',
    "Tags contains a",
    "c not in Tags",
    "Tags not contains c",
    "80 in Ports",
    "Ports contains 443",
    "81 not in Ports",
    "tier in Parameters",
    "Parameters contains tier",
    "gold not in Parameters",
    "Name contains db",
    '"b o" in Name',
    "Name not contains DB",
    "a not in NoTags",
    "a not in NullTags",
    "toString not in Parameters",
    "toString not in Empty",
  ]);
});

describe("a regular expression matches:", () => {
  holds([
    'Name matches "^db"',
    "Name matches `o.e$`",
    'Name not matches "^one"',
    'Name matches "(?i)DB"',
    "Name matches `\\bone\\b`",
    'ID matches "[0-9]$"',
    "Parameters.tier matches go",
    "Parameters.nope not matches go",
  ]);
});

describe("tests for empty and nil are true:", () => {
  holds([
    "NoTags is empty",
    "NullTags is empty",
    "Tags is not empty",
    "Empty is empty",
    "Context is empty",
    "Parameters is not empty",
    "Parameters.empty is empty",
    "Name is not empty",
    "Context is nil",
    "NullTags is nil",
    "NoTags is not nil",
    "Empty is not nil",
    "MountOptions is nil",
    "Limits is not nil",
    '"" is not nil',
  ]);
});

describe("a missing value is unequal, empty and nil:", () => {
  const missing = [
    "Parameters.nope",
    "Context.nope",
    "MountOptions.FSType",
    "Open.nope.nope",
    "Open.Nothing",
    "Tags.7",
  ];
  for (const path of missing) {
    holds([`${path} != x`, `x not in ${path}`, `${path} not contains x`, `${path} is empty`, `${path} not matches x`]);
  }
  holds([
    "Drivers.nope is nil",
    "Open.nope is nil",
    "all NullTags as t { t == x }",
    "all Open.nope as t { t == x }",
    "not (any NullTags as t { t != x })",
    "not (any Open.nope as t { t != x })",
  ]);
});

describe("operators have the documented precedence:", () => {
  holds([
    "ID == x and ID == y or PluginID == ebs",
    "PluginID == ebs or ID == x and ID == y",
    "not ID == x and PluginID == ebs",
    "not (ID == x and PluginID == ebs)",
    "not not PluginID == ebs",
    "not not not PluginID == efs",
    "( PluginID == ebs )",
    "((PluginID==ebs) and (not (ID==x)))",
    "PluginID\n==\n\tebs\r\n and\nSchedulable == true",
    " PluginID == ebs ",
  ]);
});

describe("a collection expression is true:", () => {
  holds([
    'any RequestedCapabilities as c { c.AccessMode == "multi-node-multi-writer" }',
    'all RequestedCapabilities as c { c.AccessMode matches "writer$" }',
    "any Tags as t { t == a }",
    "any Tags as t { t==a and t!=b }",
    "all NoTags as t { t == x }",
    "not (any NoTags as t { t != x })",
    "any Parameters as k { k == tier }",
    "any Parameters as k, v { k == tier and v == gold }",
    "any Parameters as _, v { v == gold }",
    "any Parameters as k, _ { k == tier }",
    "any Parameters as k,v { v == gold }",
    "any Tags as i, t { i == 1 and t == `b-c` }",
    "any Tags as i, _ { i == 1 }",
    "any Drivers as _, d { d.Healthy == true }",
    "any Drivers as name, d { name == docker and d.Healthy == false }",
    "all Drivers as n { n != raw }",
    "any Topologies as t { any t.Segments as k, v { k == rack and v == R2 } }",
    "any Tags as t { any RequestedCapabilities as c { t == a and c.AttachmentMode == `block-device` } }",
    "any Tags as _, t { any Tags as _, u { t == a and u == `b-c` } }",
    "any Tags as t { PluginID == ebs }",
    "any Tags as Name { Name == a }",
    "any Tags as t { any Ports as t { t == 80 } }",
    "ID == x or any Tags as t { t == a }",
    "(any Tags as t { t == a }) and (all Ports as p { p != 1 })",
    "any Tags as t { ( t == a ) }",
    "any Ports as p { p == 80 }",
  ]);
});

describe("a field without a declared type is compared by its value:", () => {
  holds([
    "Open.Count == 5",
    'Open.Count == "0x5"',
    "Open.Count != x",
    "Open.Rate == 0.5",
    "Open.Text == 5",
    "Open.Flag == true",
    "Open.Deep.er.est == here",
    "Open.Groups.0.Name == web",
    "any Open.Groups as g { g.Count == 2 }",
    "any Open.Map as k, v { k == k and v == v }",
    "any Open.Map as k { k == `k` }",
    "k in Open.Map",
    "Open.Text matches `^[0-9]$`",
    "Open.Count not matches 5",
    "Open.Count not contains 5",
    "Open.Groups is not empty",
    "Open.Count is not empty",
    "Open.Nothing is nil",
    "Open.Map != x",
    "Open.toString is nil",
    "Open.Groups.length is nil",
    'Open["__proto__"] is nil',
  ]);

  it("also for numbers beyond 2^53", () => {
    const row = { ...VOLUME, Open: parseLossless('{"Big": 1736191993011000001, "Bigs": [1736191993011000001]}') };
    expect(matches("Open.Big == 1736191993011000001", row)).toBe(true);
    expect(matches("Open.Big != 1736191993000000000", row)).toBe(true);
    expect(matches("1736191993011000001 in Open.Bigs", row)).toBe(true);
    expect(matches("any Open.Bigs as big { big == 1736191993011000001 }", row)).toBe(true);
  });

  it("also in a row without declared fields", () => {
    const filter = compileFilter<object>("TaskGroups.0.Count == 3 and Nope is nil", kind.any);
    expect(filter({ TaskGroups: [{ Count: 3 }] })).toBe(true);
    expect(filter({ TaskGroups: [{ Count: 4 }] })).toBe(false);
    expect(filter({})).toBe(false);
  });
});

describe("a text longer than 16384 characters", () => {
  it("matches no regular expression", () => {
    expect(matches("Name matches x", { ...VOLUME, Name: "x".repeat(16_384) })).toBe(true);
    expect(matches("Name matches x", { ...VOLUME, Name: "x".repeat(16_385) })).toBe(false);
  });
});

describe("one compiled filter", () => {
  it("evaluates rows independently", () => {
    const filter = compileFilter<Volume>("any Tags as t { t == a } ", FIELDS);
    const rows = [["a"], [], ["b"], ["b", "a"]].map((Tags) => ({ ...VOLUME, Tags }));
    expect(rows.map((row) => filter(row))).toEqual([true, false, false, true]);
  });
});
