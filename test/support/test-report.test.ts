import { resolve } from "node:path";
import { expect, it } from "vitest";
import { countsOf, failuresOf, withFilesThatDidNotRun, withLaterResults } from "../../scripts/test-report.ts";

const [ran, late] = [resolve("test/a.test.ts"), resolve("test/b.test.ts")];
const passed = (name: string) => ({
  name,
  status: "passed",
  message: "",
  assertionResults: [{ fullName: "works", status: "passed", failureMessages: [] }],
});

it("a file that did not run has failed until it has run again", () => {
  const errors = ["Timeout starting the runner.", "Timeout starting the runner."];
  const report = withFilesThatDidNotRun({ testResults: [passed(ran)] }, { files: [ran, late], errors });
  expect(report.testResults.flatMap(failuresOf)).toEqual([
    { file: "test/b.test.ts", test: "", message: "The file did not run.\nTimeout starting the runner." },
  ]);
  expect(countsOf(report)).toEqual({ passed: 1, failed: 1, skipped: 0 });
  const again = withLaterResults(report, { testResults: [passed(late)] });
  expect([again.testResults.flatMap(failuresOf), countsOf(again).passed]).toEqual([[], 2]);
});

it("a second run without the file leaves it failed", () => {
  const report = withFilesThatDidNotRun({ testResults: [] }, { files: [late], errors: [] });
  expect(countsOf(withLaterResults(report, null)).failed).toBe(1);
});
