import { describe, expect, it } from "vitest";
import { FIELDS, VOLUME, type Volume } from "../../../test/filter-sample.ts";
import { compileFilter } from "./compile.ts";

const refusal = (expression: string): { name?: string; message: string } => {
  try {
    compileFilter(expression, FIELDS);
  } catch (failure) {
    return failure as Error;
  }
  return { message: "taken" };
};

describe("a filter returns an error for any rows when it", () => {
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
      "compares an integer with a number beyond 64 bits",
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
      "compares a value that is not a scalar",
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
      "tests a number for emptiness",
      "Capacity is empty",
      'failed to read result page: cannot perform is empty/is not empty operations on type integer for selector: "Capacity"',
    ],
    [
      "tests a string for nil",
      "Name is nil",
      'failed to read result page: cannot perform is nil/is not nil operations on type string for selector: "Name"',
    ],
    [
      "iterates over a string",
      "any Name as c { c == x }",
      "failed to read result page: any and all work on lists and maps, not on a string",
    ],
    [
      "has a bad regular expression",
      'Name matches "("',
      'failed to read result page: failed to compile regular expression "(": error parsing regexp: missing closing ): `(`',
    ],
  ])("%s: %s", (_because, expression, message) => {
    expect(refusal(expression ?? "")).toMatchObject({ name: "FilterError", message });
  });

  it.each([
    ["many elements in each other", "any Tags as a { any Tags as b { any NoTags as c { c == x } } }"],
    ["many comparisons of many elements", `any Tags as a { ${Array(200).fill("a == y").join(" or ")} }`],
    ["many long lists", Array(200).fill("y in Tags").join(" or ")],
    ["a large pattern and long texts", "any Tags as t { t matches `(?:x{50}){19}y` }"],
  ])("exceeds the work limit of one row: %s", (_because, expression) => {
    const row = { ...VOLUME, Tags: Array.from({ length: 110 }, () => "x") };
    const filter = compileFilter<Volume>(expression, FIELDS, 10_000);
    expect(() => filter(row)).toThrow("filter: takes too much work on these rows");
    expect(compileFilter<Volume>(expression, FIELDS)(row)).toBe(false);
  });

  it("exceeds the work limit of all rows together", () => {
    const filter = compileFilter<Volume>("Name == x", FIELDS, 10);
    for (let n = 0; n < 10; n++) filter(VOLUME);
    expect(() => filter(VOLUME)).toThrow("filter: takes too much work on these rows");
  });

  it("contains an invalid value, which the message truncates", () => {
    expect(refusal(`Capacity == "${"x".repeat(5_000)}"`).message.length).toBeLessThan(300);
  });
});
