import { describe, expect, it } from "vitest";
import type { Mutation } from "./mutation.ts";
import { faultOfRow, mutated, mutationTables, rowsOf } from "./tables.ts";

const row: Mutation = {
  file: "src/worker.ts",
  suites: ["test/workers/status.quick.test.ts"],
  name: "*",
  find: "export default {",
  replace: "export default { x: 1,",
  promise: "Requests are served",
};

it("every mutation applies to exactly one place of an existing file, and names existing suites", () => {
  const faults: string[] = [];
  let rows = 0;
  for (const [area, table] of mutationTables()) {
    for (const each of table) {
      rows++;
      const fault = faultOfRow(each, ".");
      if (fault) faults.push(`${area}: ${each.file}: ${each.find}: ${fault}`);
    }
  }
  expect(faults).toEqual([]);
  expect(rows).toBeGreaterThan(700);
});

it.each([
  ["the file does not exist", { file: "src/missing.ts" }],
  ["the text to replace occurs 0 times", { find: "a text that no source file holds" }],
  ["there is no missing", { name: "missing" }],
  ["the replacement changes nothing", { replace: "export default {" }],
  ["no suite is named", { suites: [] }],
  ["the suite test/missing.test.ts does not exist", { suites: ["test/missing.test.ts"] }],
  ["the promise is missing", { promise: "" }],
])("reports a row where %s", (fault, change) => {
  expect(faultOfRow({ ...row, ...change }, ".")).toBe(fault);
});

describe("a table", () => {
  it("holds file and suites for all rows below them", () => {
    const table = "a.ts\n x.test.ts y.test.ts\n  f: one → two // First // why\n\nb.ts\n  *: a: b → ∅ // Second\n";
    const suites = ["x.test.ts", "y.test.ts"];
    expect(rowsOf(table)).toEqual([
      { file: "a.ts", suites, name: "f", find: "one", replace: "two", promise: "First", equivalent: "why" },
      { file: "b.ts", suites, name: "*", find: "a: b", replace: "", promise: "Second" },
    ]);
  });

  it.each([
    "const a = 1;",
    "  f: one // a row without a replacement",
    "  f: one → two",
    "  one → two // a row without a name",
  ])("refuses the line %j", (line) =>
    expect(() => rowsOf(`a.ts\n${line}\n`)).toThrow(`no line of a mutation: ${line}`),
  );
});

describe("a mutation", () => {
  const source = [
    "const LIMIT = 1;",
    "export async function first(",
    "  a: number,",
    "): Promise<void> {",
    "  await call(",
    "    a,",
    "  );",
    "}",
    "class Second {",
    "  get last(): number {",
    "    return call(a);",
    "  }",
    "",
    "  #each = async () => {",
    "    last(call(b));",
    "  };",
    "}",
    "const table = {",
    "  row: (a) => call(a),",
    "};",
  ].join("\n");

  it.each([
    ["matches text that the formatter has broken", "first", "call( a, )", "call(\n    a,\n  )"],
    ["changes the method that it names, not its callers", "last", "call(", "return call("],
    ["changes the constant that it names", "LIMIT", "1", "= 1"],
    ["changes the function in the field that it names", "#each", "call", "last(call"],
    ["changes the property that it names", "row", "call(a)", "=> call(a)"],
    ["changes the class that it names", "Second", "call(a)", "return call(a)"],
  ])("%s", (_, name, find, gone) => {
    const changed = mutated(source, { ...row, name, find, replace: "" });
    expect(changed).toHaveProperty("source");
    expect(source).toContain(gone);
    expect("source" in changed && changed.source).not.toContain(gone);
  });

  it("is refused where the function holds the text twice", () => {
    const change = { ...row, name: "Second", find: "call(", replace: "" };
    expect(mutated(source, change)).toEqual({ fault: "the text to replace occurs 2 times" });
  });
});
