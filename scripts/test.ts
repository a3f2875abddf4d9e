/**
 * `npm test`: types, lint, every suite, and a check that docs/internals/coverage.md names only tests that ran; all at
 * once, since suites mostly wait and types take one processor. The tests of the doubles are skipped while nothing that
 * they test has changed since they passed, see doubles.ts; `DOUBLES=always` runs them. `npm test -- kv` passes the words
 * to vitest and runs nothing else. The last lines name the failed tests, and give the verdict with the duration. In CI,
 * the files of a few failed tests run a second time, one after the other; a test that passes then is listed as unsteady.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { join, relative } from "node:path";
import { doublesVersion, passedVersion, recordPassed } from "./doubles.ts";
import { QUIET_WRANGLER } from "./runtime.ts";

interface FileReport {
  /** The file. */
  name: string;
  status: string;
  message: string;
  assertionResults: Array<{ fullName: string; status: string; failureMessages: string[] }>;
}

/** The part of vitest's JSON report that is counted here. */
interface Report {
  testResults: FileReport[];
}

interface Outcome {
  passed: boolean;
  because: string;
}

const VITEST = ["node_modules/vitest/vitest.mjs", "run"];
const DOUBLES = "test/doubles/";
/** Files of one run at once; each has a runtime or services, of up to half a GiB. */
const memory = Math.min(totalmem(), process.constrainedMemory() || totalmem());
const FILES_AT_ONCE = Math.max(3, Math.min(3 * availableParallelism() + 2, Math.floor(memory / 2 ** 30) - 1, 14));
/** Projects with a run of their own. */
const OWN_RUN = ["workers", "console"];

/** More failures than these are no matter of chance, and are not tried again. */
const MAX_UNSTEADY = 6;

const words = process.argv.slice(2);
const isWhole = words.length === 0;
const started = Date.now();
const reports = mkdtempSync(join(tmpdir(), "sallyport-test-"));
try {
  end(await (isWhole ? whole() : suites([words])));
} finally {
  rmSync(reports, { recursive: true });
}

async function whole(): Promise<Outcome> {
  const version = doublesVersion();
  const skipped = process.env["DOUBLES"] !== "always" && passedVersion() === version;
  if (skipped)
    console.log("The tests of the doubles are skipped: nothing that they test has changed since they passed.");
  // Three runs, since vitest begins with the projects whose files need a process each, and ends with the console.
  const atOnce = Math.max(1, Math.floor((FILES_AT_ONCE - 1) / 2));
  // The suites of this project wait most, for alarms and back-offs, and took longest.
  const workersAtOnce = Math.max(1, FILES_AT_ONCE - 1 - atOnce);
  const others = projects().filter((name) => !OWN_RUN.includes(name) && !(skipped && name === "doubles"));
  const outcomes = await Promise.all([
    check("Types", "check"),
    check("Lint", "lint"),
    suites([
      ["--project=workers", `--maxWorkers=${workersAtOnce}`],
      [...others.map((name) => `--project=${name}`), `--maxWorkers=${atOnce}`],
      ["--project=console", "--maxWorkers=1"],
    ]),
  ]);
  if (!skipped && haveDoublesPassed()) recordPassed(version);
  const failed = outcomes.filter(({ passed }) => !passed);
  if (failed.length > 0) return { passed: false, because: failed.map(({ because }) => because).join("; ") };
  // The coverage page may name only tests that exist and ran.
  const coverage = await run("Coverage", process.execPath, ["scripts/coverage.ts", reportFile("all")], "inherit");
  if (coverage.status !== 0) return { passed: false, because: "coverage, above is why" };
  return outcomes.at(-1) as Outcome;
}

/** The names in vitest's configuration: `--project` excludes no more than one of them. */
function projects(): string[] {
  const names = readFileSync("vitest.config.ts", "utf8").matchAll(/^ {10}name: "(\w+)",$/gm);
  return [...names].map(([, name = ""]) => name);
}

/** Runs vitest at the same time with each list of arguments. */
async function suites(runs: readonly (readonly string[])[]): Promise<Outcome> {
  console.log("\n== Tests");
  const results = await Promise.all(runs.map((args, at) => vitest(String(at), args)));
  const found = results.flatMap(({ report }) => report ?? []);
  if (found.length < runs.length) return { passed: false, because: "vitest left no report, above is why" };
  let report: Report = { testResults: found.flatMap(({ testResults }) => testResults) };
  let passed = results.every(({ status }) => status === 0);
  const failures = report.testResults.flatMap(failuresOf);
  listFailures("×", failures);
  // An error outside of the tests stands in no report, so a second attempt would hide it.
  const failedOutside = results.some(
    (each) => each.status !== 0 && each.report?.testResults.flatMap(failuresOf).length === 0,
  );
  const mayRepeat = process.env["CI"] && isWhole && !failedOutside;
  if (mayRepeat && failures.length > 0 && failures.length <= MAX_UNSTEADY) {
    console.log("\n== Failed files again");
    const files = new Set(failures.map(({ file }) => file));
    const second = await vitest("second", [...files, "--maxWorkers=1"]);
    report = withLaterResults(report, second.report);
    passed = second.status === 0;
    const still = report.testResults.flatMap(failuresOf);
    listFailures("×", still);
    if (still.length === 0) listFailures("unsteady:", failures);
  }
  writeFileSync(reportFile("all"), JSON.stringify(report));
  const counts = count(report);
  const outside = !passed && counts.failed === 0 ? "; something outside of the tests failed, above is what" : "";
  return {
    passed,
    because: `${counts.passed} tests passed, ${counts.failed} failed, ${counts.skipped} skipped${outside}`,
  };
}

/** One run of vitest; its report is null when it left none. */
async function vitest(name: string, args: readonly string[]): Promise<{ status: number; report: Report | null }> {
  const file = reportFile(name);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const { status } = await run("", process.execPath, [...VITEST, ...reporters, ...args], "inherit");
  return { status, report: existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Report) : null };
}

/** The first report, with the results of files that ran again from the second. */
function withLaterResults(first: Report, second: Report | null): Report {
  const again = new Map(second?.testResults.map((result) => [result.name, result]));
  return { testResults: first.testResults.map((result) => again.get(result.name) ?? result) };
}

function reportFile(name: string): string {
  return join(reports, `${name}.json`);
}

function haveDoublesPassed(): boolean {
  if (!existsSync(reportFile("all"))) return false;
  const { testResults } = JSON.parse(readFileSync(reportFile("all"), "utf8")) as Report;
  const files = testResults.filter(({ name }) => relative(process.cwd(), name).startsWith(DOUBLES));
  return files.length > 0 && files.every(({ status }) => status === "passed");
}

function count({ testResults }: Report): { passed: number; failed: number; skipped: number } {
  const tests = testResults.flatMap((file) => file.assertionResults);
  const passed = tests.filter(({ status }) => status === "passed").length;
  const skipped = tests.filter(({ status }) => status !== "passed" && status !== "failed").length;
  return { passed, failed: testResults.flatMap(failuresOf).length, skipped };
}

interface Failure {
  file: string;
  /** Empty when the file could not be loaded. */
  test: string;
  message: string;
}

/** The failed tests of a file. A file that could not be loaded has no tests, and is one failure. */
function failuresOf({ name, status, message, assertionResults }: FileReport): Failure[] {
  const firstLine = (text = ""): string => text.split("\n", 1)[0]?.slice(0, 300) ?? "";
  const file = relative(process.cwd(), name);
  const failed = assertionResults.filter((test) => test.status === "failed");
  if (status === "failed" && failed.length === 0) return [{ file, test: "", message: firstLine(message) }];
  return failed.map(({ fullName: test, failureMessages: [first] }) => ({ file, test, message: firstLine(first) }));
}

/** Prints each failed test with the first line of its message, because vitest's own report is far above. */
function listFailures(mark: string, failures: readonly Failure[]): void {
  for (const { file, test, message } of failures) console.log(`\n${mark} ${file}: ${test}\n  ${message}`);
}

/** Runs a script of package.json; its output is printed when it has ended. */
async function check(heading: string, script: string): Promise<Outcome> {
  const { status, output } = await run(heading, "npm", ["run", "--silent", script], "pipe");
  console.log(`\n== ${heading}${status === 0 ? ": passed" : ""}\n${output.trimEnd()}`);
  return { passed: status === 0, because: `${heading.toLowerCase()}, above is why` };
}

function end({ passed, because }: Outcome): void {
  const seconds = Math.round((Date.now() - started) / 1000);
  const time = `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  console.log(`\n${passed ? "PASSED" : "FAILED"} after ${time}: ${because}`);
  process.exitCode = passed ? 0 : 1;
}

function run(
  heading: string,
  command: string,
  args: readonly string[],
  stdio: "inherit" | "pipe",
): Promise<{ status: number; output: string }> {
  if (stdio === "inherit" && heading) console.log(`\n== ${heading}`);
  // The Worker's log is checked by the tests themselves.
  const env = { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "error" };
  const child = spawn(command, args, { stdio: ["ignore", stdio, stdio], env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (output += text));
  return new Promise((resolve) => {
    child.once("error", (error) => resolve({ status: 1, output: error.message }));
    child.once("close", (status) => resolve({ status: status ?? 1, output }));
  });
}
