/**
 * `npm test`: types, lint, every suite, and whether docs/coverage.md names only tests that ran; stops at the first that fails.
 * `npm test -- kv` hands the words to vitest and runs nothing else.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QUIET_WRANGLER } from "./runtime.ts";

/** The part of vitest's JSON report that is counted here. */
interface Report {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  testResults: Array<{ status: string; assertionResults: unknown[] }>;
}

const words = process.argv.slice(2);
if (words.length === 0) {
  stage("Types", "npm", ["run", "--silent", "check"]);
  stage("Lint", "npm", ["run", "--silent", "lint"]);
}
suites();

function suites(): void {
  const reports = mkdtempSync(join(tmpdir(), "sallyport-test-"));
  const report = join(reports, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  let status = run("Tests", process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...reporters, ...words]);
  try {
    // The coverage page may name only tests that exist and ran.
    if (words.length === 0) status ||= run("Coverage", process.execPath, ["scripts/coverage.ts", report]);
    const { passed, failed, skipped } = count(JSON.parse(readFileSync(report, "utf8")) as Report);
    console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  } catch (failure) {
    console.error(`vitest left no report: ${failure instanceof Error ? failure.message : failure}`);
  } finally {
    rmSync(reports, { recursive: true });
  }
  process.exitCode = status;
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

function stage(heading: string, command: string, args: string[]): void {
  const status = run(heading, command, args);
  if (status !== 0) process.exit(status);
}

function run(heading: string, command: string, args: string[]): number {
  console.log(`\n== ${heading}`);
  // What the Worker says in a test is for the test to judge.
  const env = { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "error" };
  const { status, error } = spawnSync(command, args, { stdio: ["ignore", "inherit", "inherit"], env });
  if (error) console.error(error.message);
  return status ?? 1;
}
