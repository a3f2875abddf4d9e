import { relative } from "node:path";
import type { StartedFiles } from "./started-files.ts";

/** Reports of vitest, as `test.ts` counts them. */

export interface FileReport {
  /** The file. */
  name: string;
  status: string;
  message: string;
  assertionResults: Array<{ fullName: string; status: string; failureMessages: string[] }>;
}

/** The part of vitest's JSON report that is counted here. */
export interface Report {
  testResults: FileReport[];
}

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

export interface Failure {
  file: string;
  /** Empty when the file could not be loaded, or did not run. */
  test: string;
  message: string;
}

/** The report with the files that did not run as failed ones: vitest leaves them out. */
export function withFilesThatDidNotRun(report: Report, { files, errors }: StartedFiles): Report {
  const ran = new Set(report.testResults.map(({ name }) => name));
  const message = ["The file did not run.", ...new Set(errors)].join("\n");
  const missing = files.filter((name) => !ran.has(name));
  const failed = missing.map((name) => ({ name, status: "failed", message, assertionResults: [] }));
  return { testResults: [...report.testResults, ...failed] };
}

/** The first report, with the results of files that ran again from the second. */
export function withLaterResults(first: Report, second: Report | null): Report {
  const again = new Map(second?.testResults.map((result) => [result.name, result]));
  return { testResults: first.testResults.map((result) => again.get(result.name) ?? result) };
}

export function countsOf({ testResults }: Report): Counts {
  const tests = testResults.flatMap((file) => file.assertionResults);
  const passed = tests.filter(({ status }) => status === "passed").length;
  const skipped = tests.filter(({ status }) => status !== "passed" && status !== "failed").length;
  return { passed, failed: testResults.flatMap(failuresOf).length, skipped };
}

/** The failed tests of a file. A file that could not be loaded has no tests, and is one failure. */
export function failuresOf({ name, status, message, assertionResults }: FileReport): Failure[] {
  const file = relative(process.cwd(), name);
  const failed = assertionResults.filter((test) => test.status === "failed");
  if (status === "failed" && failed.length === 0) return [{ file, test: "", message }];
  return failed.map(({ fullName: test, failureMessages: [message = ""] }) => ({ file, test, message }));
}
