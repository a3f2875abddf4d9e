/**
 * `npm test`: types, lint, every suite, and a check that docs/internals/coverage.md names only tests that ran. Stops at
 * the first failure. `npm test -- kv` passes the words to vitest and runs nothing else. The last lines name the failed
 * tests, and give the verdict with the duration.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { QUIET_WRANGLER } from "./runtime.ts";

/** The part of vitest's JSON report that is counted here. */
interface Report {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
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

const words = process.argv.slice(2);
const isWhole = words.length === 0;
const started = Date.now();
const npmRun = (script: string) => ["run", "--silent", script];
const failed = isWhole ? (stage("Types", "npm", npmRun("check")) ?? stage("Lint", "npm", npmRun("lint"))) : null;
end(failed ?? suites());

function suites(): Outcome {
  const reports = mkdtempSync(join(tmpdir(), "sallyport-test-"));
  const report = join(reports, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  try {
    const vitest = stage("Tests", process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...reporters, ...words]);
    if (!existsSync(report)) return { passed: false, because: "vitest left no report, above is why" };
    const result = JSON.parse(readFileSync(report, "utf8")) as Report;
    const counts = count(result);
    listFailures(result);
    // The coverage page may name only tests that exist and ran.
    const coverage = isWhole && !vitest ? stage("Coverage", process.execPath, ["scripts/coverage.ts", report]) : null;
    const outside = vitest && counts.failed === 0 ? "; something outside of the tests failed, above is what" : "";
    const because = `${counts.passed} tests passed, ${counts.failed} failed, ${counts.skipped} skipped${outside}`;
    return coverage ?? { passed: !vitest, because };
  } finally {
    rmSync(reports, { recursive: true });
  }
}

function count(report: Report): { passed: number; failed: number; skipped: number } {
  // A file that could not even be loaded has no tests to count, and is a failure all the same.
  const broken = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0);
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken.length,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

/** Prints the failed tests, a line each with the first line of its message: vitest's own report is far above. */
function listFailures(report: Report): void {
  const firstLine = (message = ""): string => message.split("\n", 1)[0]?.slice(0, 300) ?? "";
  for (const { name, status, message, assertionResults } of report.testResults) {
    const file = relative(process.cwd(), name);
    const failures = assertionResults.filter((test) => test.status === "failed");
    for (const test of failures) {
      console.log(`\n× ${file}: ${test.fullName}\n  ${firstLine(test.failureMessages[0])}`);
    }
    if (status === "failed" && failures.length === 0) console.log(`\n× ${file}\n  ${firstLine(message)}`);
  }
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
