/**
 * `npm test`: types, lint, every suite, and a check that docs/internals/coverage.md names only tests that ran. Stops at
 * the first failure. `npm test -- kv` passes the words to vitest and runs nothing else. The last lines name the failed
 * tests, and give the verdict with the duration. In CI, the files of a few failed tests run a second time, one after the
 * other; a test that passes then is listed as unsteady.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { QUIET_WRANGLER } from "./runtime.ts";

/** The part of vitest's JSON report that is counted here. */
interface Report {
  testResults: Array<{
    /** The file. */
    name: string;
    status: string;
    message: string;
    assertionResults: Array<{ fullName: string; status: string; failureMessages: string[] }>;
  }>;
}

interface Outcome {
  passed: boolean;
  because: string;
}

/** More failures than these are no matter of chance, and are not tried again. */
const MAX_UNSTEADY = 3;

const words = process.argv.slice(2);
const isWhole = words.length === 0;
const started = Date.now();
const npmRun = (script: string) => ["run", "--silent", script];
const failed = isWhole ? (stage("Types", "npm", npmRun("check")) ?? stage("Lint", "npm", npmRun("lint"))) : null;
end(failed ?? suites());

function suites(): Outcome {
  const reports = mkdtempSync(join(tmpdir(), "sallyport-test-"));
  const file = join(reports, "report.json");
  try {
    let last = runVitest("Tests", file, words);
    if (!last) return { passed: false, because: "vitest left no report, above is why" };
    const failures = last.report.testResults.flatMap(failuresOf);
    listFailures("×", failures);
    if (process.env["CI"] && isWhole && failures.length > 0 && failures.length <= MAX_UNSTEADY) {
      const files = [...new Set(failures.map((failure) => failure.file))];
      const second = runVitest("Failed files again", join(reports, "second.json"), [...files, "--maxWorkers=1"]);
      if (second) last = { status: second.status, report: withLaterResults(last.report, second.report) };
      const still = last.report.testResults.flatMap(failuresOf);
      listFailures("×", still);
      if (still.length === 0) listFailures("unsteady:", failures);
      writeFileSync(file, JSON.stringify(last.report));
    }
    const { passed, failed, skipped } = count(last.report);
    // The coverage page may name only tests that exist and ran.
    const coverage =
      isWhole && !last.status ? stage("Coverage", process.execPath, ["scripts/coverage.ts", file]) : null;
    const outside = last.status && failed === 0 ? "; something outside of the tests failed, above is what" : "";
    const because = `${passed} tests passed, ${failed} failed, ${skipped} skipped${outside}`;
    return coverage ?? { passed: !last.status, because };
  } finally {
    rmSync(reports, { recursive: true });
  }
}

interface Run {
  /** Vitest's exit code. */
  status: number;
  report: Report;
}

/** Null when vitest left no report. */
function runVitest(heading: string, file: string, args: string[]): Run | null {
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const status = run(heading, process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...reporters, ...args]);
  return existsSync(file) ? { status, report: JSON.parse(readFileSync(file, "utf8")) as Report } : null;
}

/** The first report, with the results of files that ran again from the second. */
function withLaterResults(first: Report, second: Report): Report {
  const again = new Map(second.testResults.map((result) => [result.name, result]));
  return { ...first, testResults: first.testResults.map((result) => again.get(result.name) ?? result) };
}

function count({ testResults }: Report): { passed: number; failed: number; skipped: number } {
  const tests = testResults.flatMap((file) => file.assertionResults);
  const passed = tests.filter((test) => test.status === "passed").length;
  const failed = testResults.flatMap(failuresOf).length;
  return {
    passed,
    failed,
    skipped: tests.filter((test) => test.status !== "passed" && test.status !== "failed").length,
  };
}

interface Failure {
  file: string;
  /** Empty when the file could not be loaded. */
  test: string;
  message: string;
}

/** A file that could not even be loaded has no tests to count, and is a failure all the same. */
function failuresOf({ name, status, message, assertionResults }: Report["testResults"][number]): Failure[] {
  const firstLine = (text = ""): string => text.split("\n", 1)[0]?.slice(0, 300) ?? "";
  const file = relative(process.cwd(), name);
  const failed = assertionResults.filter((test) => test.status === "failed");
  if (status === "failed" && failed.length === 0) return [{ file, test: "", message: firstLine(message) }];
  return failed.map(({ fullName: test, failureMessages: [first] }) => ({ file, test, message: firstLine(first) }));
}

/** Prints failed tests, a line each with the first line of its message: vitest's own report is far above. */
function listFailures(mark: string, failures: readonly Failure[]): void {
  for (const { file, test, message } of failures) console.log(`\n${mark} ${file}: ${test}\n  ${message}`);
}

/** Null when it has passed. */
function stage(heading: string, command: string, args: string[]): Outcome | null {
  if (run(heading, command, args) === 0) return null;
  return { passed: false, because: `${heading.toLowerCase()}, above is why` };
}

function end({ passed, because }: Outcome): void {
  const seconds = Math.round((Date.now() - started) / 1000);
  const time = `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  console.log(`\n${passed ? "PASSED" : "FAILED"} after ${time}: ${because}`);
  process.exitCode = passed ? 0 : 1;
}

function run(heading: string, command: string, args: string[]): number {
  console.log(`\n== ${heading}`);
  // The Worker's log is checked by the tests themselves.
  const env = { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "error" };
  const { status, error } = spawnSync(command, args, { stdio: ["ignore", "inherit", "inherit"], env });
  if (error) console.error(error.message);
  return status ?? 1;
}
