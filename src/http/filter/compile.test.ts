import { describe, expect, it } from "vitest";
import { compileFilter } from "./compile.ts";
import * as kind from "./kinds.ts";

const VOLUME = {
  ID: "vol-1",
  Name: "db one",
  Namespace: "prod",
  PluginID: "ebs",
  HostPath: "/srv/data",
  Version: "1.2.3",
  Capacity: 1_048_576,
  CreateTime: 1_736_191_993_011_000_000,
  Delta: -5,
  Ratio: 0.75,
  Schedulable: true,
  Parameters: { tier: "gold", "my.key": "x", "a/b": "c", empty: "", __proto__x: "y" },
  Context: null as Record<string, string> | null,
  Empty: {},
  Topologies: [{ Segments: { rack: "R1" } }, { Segments: { rack: "R2" } }],
  Ports: [80, 443],
  Tags: ["a", "b-c"],
  NoTags: [] as string[],
  NullTags: null as string[] | null,
  RequestedCapabilities: [
    { AccessMode: "single-node-writer", AttachmentMode: "file-system" },
    { AccessMode: "multi-node-multi-writer", AttachmentMode: "block-device" },
  ],
  MountOptions: null as { FSType: string } | null,
  Limits: { FSType: "ext4", Depth: 3 },
  Drivers: { exec: { Healthy: true, Detail: "ok" }, docker: { Healthy: false, Detail: "" } },
  Secret: "hunter2",
  Open: {
    Count: 5,
    Rate: 0.5,
    Text: "5",
    Flag: true,
    Groups: [{ Name: "web", Count: 2 }, { Name: "db" }],
    Map: { k: "v" },
    Nothing: null,
    Deep: { er: { est: "here" } },
  } as unknown,
};
type Volume = typeof VOLUME;

const FIELDS = kind.record<Volume>({
  ID: kind.string,
  Name: kind.string,
  Namespace: kind.string,
  PluginID: kind.string,
  HostPath: kind.string,
  Version: kind.string,
  Capacity: kind.integer,
  CreateTime: kind.integer,
  Delta: kind.integer,
  Ratio: kind.number,
  Schedulable: kind.boolean,
  Parameters: kind.map(kind.string),
  Context: kind.map(kind.string),
  Empty: kind.map(kind.string),
  Topologies: kind.list(kind.struct({ Segments: kind.map(kind.string) })),
  Ports: kind.list(kind.integer),
  Tags: kind.list(kind.string),
  NoTags: kind.list(kind.string),
  NullTags: kind.list(kind.string),
  RequestedCapabilities: kind.list(kind.struct({ AccessMode: kind.string, AttachmentMode: kind.string })),
  MountOptions: kind.struct({ FSType: kind.string }),
  Limits: kind.struct({ FSType: kind.string, Depth: kind.integer }),
  Drivers: kind.map(kind.struct({ Healthy: kind.boolean, Detail: kind.string })),
  Open: kind.any,
});

const matches = (expression: string, row: Volume = VOLUME): boolean => compileFilter<Volume>(expression, FIELDS)(row);

/** Each expression holds, and its negation does not. */
const holds = (expressions: readonly string[]) => {
  it.each(expressions)("%s", (expression) => {
    expect(matches(expression)).toBe(true);
    expect(matches(`not (${expression})`)).toBe(false);
  });
};

const refusal = (expression: string): { status?: number; message: string } => {
  try {
    compileFilter(expression, FIELDS);
  } catch (failure) {
    return failure as { status: number; message: string };
  }
  return { message: "taken" };
};

describe("a comparison holds for", () => {
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

describe("a quoted value is what is written, also when it looks like a path", () => {
  holds(['HostPath == "/srv/data"', "HostPath == `/srv/data`", 'HostPath != "srv/data"']);
});

describe("a dotted bare value is joined with dots", () => {
  it("and its keys in brackets with it", () => {
    const row = { ...VOLUME, Name: "a.b.c" };
    expect(matches("Name == a.b.c", row)).toBe(true);
    expect(matches('Name == a["b"].c', row)).toBe(true);
  });
});

describe("membership holds for", () => {
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

describe("a regular expression is found for", () => {
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

describe("emptiness and nil hold for", () => {
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

describe("what is missing is unequal, empty, and nil:", () => {
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

describe("words bind as they should:", () => {
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

describe("a collection holds for", () => {
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
    "ID == x or any Tags as t { t == a }",
    "(any Tags as t { t == a }) and (all Ports as p { p != 1 })",
    "any Tags as t { ( t == a ) }",
    "any Ports as p { p == 80 }",
  ]);
});

describe("an open field is read as it is:", () => {
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

  it("as a whole record, too", () => {
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

describe("the same filter", () => {
  it("judges each row by itself", () => {
    const filter = compileFilter<Volume>("any Tags as t { t == a } ", FIELDS);
    const rows = [["a"], [], ["b"], ["b", "a"]].map((Tags) => ({ ...VOLUME, Tags }));
    expect(rows.map((row) => filter(row))).toEqual([true, false, false, true]);
  });
});

describe("a filter is refused, whatever rows there are, when it", () => {
  const found = (path: string, at: number, why: string) =>
    `failed to read result page: error finding value in datum: ${path} at part ${at}: ${why}`;
  it.each([
    ["names an unknown field", "Nope == 1", found("/Nope", 0, `couldn't find struct field with name "Nope"`)],
    ["names a field in another case", "name == x", found("/name", 0, `couldn't find struct field with name "name"`)],
    ["names a secret", "Secret == hunter2", found("/Secret", 0, `couldn't find struct field with name "Secret"`)],
    [
      "names an unknown field of a field",
      "MountOptions.Nope is empty",
      found("/MountOptions/Nope", 1, `couldn't find struct field with name "Nope"`),
    ],
    [
      "names an unknown field by a pointer",
      '"/Limits/a~1b" == x',
      found("/Limits/a~1b", 1, `couldn't find struct field with name "a/b"`),
    ],
    [
      "names an unknown field of an element",
      "any RequestedCapabilities as c { c.Nope == x }",
      found("/c/Nope", 1, `couldn't find struct field with name "Nope"`),
    ],
    [
      "names an inherited member",
      "toString == x",
      found("/toString", 0, `couldn't find struct field with name "toString"`),
    ],
    ["names a part of a string", "ID.length == 5", found("/ID/length", 1, "invalid value kind: string")],
    ["names a word in a list", "Tags.first == a", found("/Tags/first", 1, `couldn't convert "first" to an index`)],
    [
      "compares an integer with a word",
      "Capacity == x",
      `failed to read result page: error getting match value in expression: strconv.ParseInt: parsing "x": invalid syntax`,
    ],
    [
      "compares an integer with a fraction",
      "Capacity == 1.5",
      `failed to read result page: error getting match value in expression: strconv.ParseInt: parsing "1.5": invalid syntax`,
    ],
    [
      "compares an integer with what 64 bits do not hold",
      "Capacity == 9223372036854775808",
      `failed to read result page: error getting match value in expression: strconv.ParseInt: parsing "9223372036854775808": value out of range`,
    ],
    [
      "looks for a word among integers",
      "x in Ports",
      `failed to read result page: error getting match value in expression: strconv.ParseInt: parsing "x": invalid syntax`,
    ],
    [
      "compares a number with a word",
      "Ratio == x",
      `failed to read result page: error getting match value in expression: strconv.ParseFloat: parsing "x": invalid syntax`,
    ],
    [
      "compares a flag with a word",
      "Schedulable == maybe",
      `failed to read result page: error getting match value in expression: strconv.ParseBool: parsing "maybe": invalid syntax`,
    ],
    ...["Parameters == x", "Tags == x", "Limits != x", "x in Topologies"].map((expression) => [
      "compares what is no single value",
      expression,
      "failed to read result page: unable to find suitable primitive comparison function for matching",
    ]),
    [
      "looks into a number",
      "Capacity contains 1",
      'failed to read result page: cannot perform in/contains operations on type integer for selector: "Capacity"',
    ],
    [
      "looks into an object of fields",
      "x in Limits",
      'failed to read result page: cannot perform in/contains operations on type struct for selector: "Limits"',
    ],
    [
      "matches a list",
      "Tags matches a",
      'failed to read result page: cannot perform matches operations on type list for selector: "Tags"',
    ],
    [
      "asks whether a number is empty",
      "Capacity is empty",
      'failed to read result page: cannot perform is empty/is not empty operations on type integer for selector: "Capacity"',
    ],
    [
      "asks whether a string is nil",
      "Name is nil",
      'failed to read result page: cannot perform is nil/is not nil operations on type string for selector: "Name"',
    ],
    [
      "goes through a string",
      "any Name as c { c == x }",
      "failed to read result page: any and all work on lists and maps, not on a string",
    ],
    [
      "has a bad regular expression",
      'Name matches "("',
      'failed to read result page: failed to compile regular expression "(": error parsing regexp: missing closing ): `(`',
    ],
  ])("%s: %s", (_because, expression, message) => {
    expect(refusal(expression ?? "")).toMatchObject({ status: 400, message });
  });

  it("takes more work than a request is worth, found out while it works", () => {
    const Tags = Array.from({ length: 2_000 }, () => "x");
    const expression = "any Tags as a { any Tags as b { any Tags as c { a == y } } }";
    expect(() => matches(expression, { ...VOLUME, Tags })).toThrow("filter: takes too much work on these rows");
    const long = Tags.map(() => "x".repeat(16_000));
    const pattern = "any Tags as t { t matches `(?:x{50}){19}y` }";
    expect(() => matches(pattern, { ...VOLUME, Tags: long })).toThrow("filter: takes too much work on these rows");
  });

  it("and a bad word in it is repeated in part only", () => {
    expect(refusal(`Capacity == "${"x".repeat(5_000)}"`).message.length).toBeLessThan(300);
  });
});
