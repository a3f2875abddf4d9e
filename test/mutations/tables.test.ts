import { describe, expect, it } from "vitest";
import type { Mutation } from "./mutation.ts";
import { faultOfRow, mutated, mutationTables, rowsOf } from "./tables.ts";

const row: Mutation = {
  file: "src/worker.ts",
  suites: ["test/workers/status.quick.test.ts"],
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
  ["there is no missing", { within: "missing" }],
  ["the replacement changes nothing", { replace: "export default {" }],
  ["no suite is named", { suites: [] }],
  ["the suite test/missing.test.ts does not exist", { suites: ["test/missing.test.ts"] }],
  ["the promise is missing", { promise: "" }],
])("reports a row where %s", (fault, change) => {
  expect(faultOfRow({ ...row, ...change }, ".")).toBe(fault);
});

describe("a table", () => {
  it("holds file and suites for all rows below them", () => {
    const table = "file a.ts\nsuites x y\n\nFirst\n- one\n- two\n+ three\n= why\n\nfile b.ts\n\nSecond\n@ f\n- four\n";
    expect(rowsOf(table)).toEqual([
      { file: "a.ts", suites: ["x", "y"], promise: "First", find: "one\ntwo", replace: "three", equivalent: "why" },
      { file: "b.ts", suites: ["x", "y"], promise: "Second", within: "f", find: "four", replace: "" },
    ]);
  });

  it("refuses a line without a mark", () => {
    expect(() => rowsOf("Promise\nconst a = 1;\n")).toThrow("no line of a mutation: const a = 1;");
  });
});

describe("a mutation", () => {
  const source = [
    "const LIMIT = 1;",
    "export async function first(a: number): Promise<void> {",
    "  await call(",
    "    a,",
    "  );",
    "}",
    "class Second {",
    "  get last(): number {",
    "    return call(a);",
    "  }",
    "}",
  ].join("\n");

  it.each([
    [
      "matches text that the formatter has broken",
      { find: "await call( a, );", replace: "" },
      "  await call(\n    a,\n  );",
    ],
    ["changes the function that it names", { within: "last", find: "call(", replace: "" }, "call(a)"],
    ["changes the constant that it names", { within: "LIMIT", find: "1", replace: "" }, "1;"],
  ])("%s", (_, change, gone) => {
    const changed = mutated(source, { ...row, ...change });
    expect(changed).toHaveProperty("source");
    const { length } = "source" in changed ? changed.source : source;
    expect(source.length - length, gone).toBeGreaterThan(0);
    expect("source" in changed && changed.source).not.toContain(gone);
  });
});
