import { expect, it } from "vitest";
import { faultOfRow, mutationTables } from "./tables.ts";

it("every mutation applies to exactly one place of an existing file, and names existing suites", async () => {
  const faults: string[] = [];
  for (const [area, rows] of await mutationTables()) {
    for (const row of rows) {
      const fault = faultOfRow(row, ".");
      if (fault) faults.push(`${area}: ${row.file}: ${row.find}: ${fault}`);
    }
  }
  expect(faults).toEqual([]);
});

it.each([
  ["the file does not exist", { file: "src/missing.ts" }],
  ["the text to replace occurs 0 times", { find: "a text that no source file holds" }],
  ["the replacement changes nothing", { replace: "export default {" }],
  ["no suite is named", { suites: [] }],
  ["the suite test/missing.test.ts does not exist", { suites: ["test/missing.test.ts"] }],
  ["the promise is missing", { promise: "" }],
])("reports a row where %s", (fault, change) => {
  const row = {
    ...{
      file: "src/worker.ts",
      find: "export default {",
      replace: "export default { x: 1,",
      promise: "Requests are served",
    },
    suites: ["test/workers/status.test.ts"],
    ...change,
  };
  expect(faultOfRow(row, ".")).toBe(fault);
});
