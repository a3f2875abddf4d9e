/**
 * `npm test` and `npm run test:all`, see docs/internals/tests.md. The first runs types, lint, and the suites that stand
 * where it finds them; the second runs every suite, and checks that docs/internals/coverage.md names only tests that ran.
 * `npm run test:all -- --rest` leaves out what the `npm test` directly before it has passed. The tests of the doubles are
 * skipped while nothing that they test has changed since they passed, see doubles.ts; `DOUBLES=always` runs them.
 * `npm test -- kv` passes the words to vitest and runs nothing else. All runs at once, since suites mostly wait and types
 * take one processor. The last lines name the failed tests, and give the verdict with the duration. In CI, a few failed
 * files run a second time, one after the other; a test that passes then is listed as unsteady.
 */
import { spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { dirname, join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { doublesVersion, passedVersion, recordPassed } from "./doubles.ts";
import { QUIET_WRANGLER } from "./runtime.ts";
import { STARTED_FILES, type StartedFiles } from "./started-files.ts";
import {
  type Counts,
  countsOf,
  type Failure,
  failuresOf,
  type Report,
  withFilesThatDidNotRun,
  withLaterResults,
} from "./test-report.ts";

interface Outcome {
  passed: boolean;
  /** Why not. */
  because: string;
  counts?: Counts;
}

const VITEST = ["node_modules/vitest/vitest.mjs", "run"];
/** The compiler collects no garbage below 3 GiB: it holds its programs to the end, and collecting took a fifth of its time. */
const COMPILER = { GOGC: "off", GOMEMLIMIT: "3GiB" };
const FILES_REPORTER = "./scripts/started-files.ts";
const DOUBLES = "test/doubles/";
/** Files of one run at once; each has a runtime or services, of up to half a GiB. */
const memory = Math.min(totalmem(), process.constrainedMemory() || totalmem());
const FILES_AT_ONCE = Math.max(3, Math.min(3 * availableParallelism() + 2, Math.floor(memory / 2 ** 30) - 1, 14));
/** Each run has a process of its own: vitest runs project after project. The suites of Workers wait most. */
const [WORKERS_AT_ONCE, OTHERS_AT_ONCE] = [Math.ceil((FILES_AT_ONCE - 1) / 2), Math.floor((FILES_AT_ONCE - 1) / 2)];
/** Suites of `npm test`: all of these projects, and of the others the files of this name. */
const QUICK_PROJECTS = ["unit", "providers"];
const QUICK = ".quick.test.ts";
/** The report of an `npm test` that passed: with `--rest` its tests count as run. */
const QUICK_REPORT = "node_modules/.cache/sallyport/quick.json";
const TESTS = "{src,agent/src,packages/*/src,test}/**/*.test.ts";

/**
 * More failed files than these are no matter of chance, and are not tried again. Files count: a test of the console may
 * need an earlier one of its file.
 */
const MAX_UNSTEADY = 6;
/** Lines shown of the first failure of a file: what a browser's test waited for stands in the third. */
const SHOWN_LINES = 6;

const flags = ["--all", "--rest"].filter((flag) => process.argv.includes(flag));
const words = process.argv.slice(2).filter((word) => !flags.includes(word));
const isWhole = words.length === 0;
const isAll = flags.includes("--all");
const isRest = flags.includes("--rest") && existsSync(QUICK_REPORT);
const started = Date.now();
const reports = mkdtempSync(join(tmpdir(), "sallyport-test-"));
try {
  if (!isWhole) end(await suites([words]));
  else end(await (isAll ? all() : quick()));
} finally {
  rmSync(reports, { recursive: true });
}

async function quick(): Promise<Outcome> {
  rmSync(QUICK_REPORT, { force: true });
  const others = projects().filter((name) => name !== "workers" && !QUICK_PROJECTS.includes(name));
  const outcome = await withChecks([
    [...of("workers"), QUICK, `--maxWorkers=${WORKERS_AT_ONCE}`],
    [...of(...others), QUICK, `--maxWorkers=${OTHERS_AT_ONCE}`],
    [...of(...QUICK_PROJECTS), "--maxWorkers=1"],
  ]);
  if (outcome.passed) {
    mkdirSync(dirname(QUICK_REPORT), { recursive: true });
    copyFileSync(reportFile("all"), QUICK_REPORT);
  }
  console.log(
    `\nLeft out: ${leftOut()}. \`npm run test:all\` runs them, and \`npm run test:long\` all rows and seeds,`,
  );
  console.log("faults, abuse and mutations.");
  return outcome;
}

async function all(): Promise<Outcome> {
  const version = doublesVersion();
  const skipped = process.env["DOUBLES"] !== "always" && passedVersion() === version;
  if (skipped)
    console.log("The tests of the doubles are skipped: nothing that they test has changed since they passed.");
  const leaves = ["workers", "console", ...(skipped ? ["doubles"] : []), ...(isRest ? QUICK_PROJECTS : [])];
  const others = projects().filter((name) => !leaves.includes(name));
  const runs = [
    [...of("workers"), `--maxWorkers=${WORKERS_AT_ONCE}`],
    [...of(...others), `--maxWorkers=${OTHERS_AT_ONCE}`],
    [...of("console"), "--maxWorkers=1"],
  ];
  const outcome = await (isRest ? suites(runs.map((args) => [...args, `--exclude=**/*${QUICK}`])) : withChecks(runs));
  if (!skipped && haveDoublesPassed()) recordPassed(version);
  if (!outcome.passed) return outcome;
  // The coverage page may name only tests that exist and ran.
  if (isRest) {
    const both = [reportFile("all"), QUICK_REPORT].flatMap((file) => readReport(file).testResults);
    writeFileSync(reportFile("all"), JSON.stringify({ testResults: both }));
  }
  const coverage = await run("Coverage", process.execPath, ["scripts/coverage.ts", reportFile("all")], "inherit");
  return coverage.status === 0 ? outcome : { ...outcome, passed: false, because: "coverage, above is why" };
}

/** Types, lint and the suites, at once. */
async function withChecks(runs: readonly (readonly string[])[]): Promise<Outcome> {
  const outcomes = await Promise.all([suites(runs), check("Types", "check", COMPILER), check("Lint", "lint")]);
  const because = outcomes.filter(({ passed }) => !passed).map((failed) => failed.because);
  return { ...outcomes[0], passed: because.length === 0, because: because.join("; ") };
}

/** Arguments that name projects. */
function of(...names: readonly string[]): string[] {
  return names.map((name) => `--project=${name}`);
}

/** The files that did not run, as numbers for each folder. */
function leftOut(): string {
  const ran = new Set(readReport(reportFile("all")).testResults.map(({ name }) => relative(process.cwd(), name)));
  const files = globSync(TESTS, { exclude: ["**/node_modules"] });
  const folders = Map.groupBy(files, dirname);
  return [...folders]
    .map(([folder, all]) => [folder, all.length, all.filter((file) => !ran.has(file)).length] as const)
    .filter(([, , missing]) => missing > 0)
    .sort(([, , a], [, , b]) => b - a)
    .map(([folder, all, missing]) => `${missing} of ${all} files in ${folder}`)
    .join(", ");
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
  const failures = report.testResults.flatMap(failuresOf);
  let passed = failures.length === 0 && results.every(({ status }) => status === 0);
  listFailures("×", failures);
  // An error outside of the tests stands in no report, so a second attempt would hide it.
  const failedOutside = results.some(
    (each) => each.status !== 0 && each.report?.testResults.flatMap(failuresOf).length === 0,
  );
  const mayRepeat = process.env["CI"] && isWhole && !failedOutside;
  const files = new Set(failures.map(({ file }) => file));
  if (mayRepeat && files.size > 0 && files.size <= MAX_UNSTEADY) {
    console.log("\n== Failed files again");
    const second = await vitest("second", [...files, "--maxWorkers=1"]);
    report = withLaterResults(report, second.report);
    const still = report.testResults.flatMap(failuresOf);
    passed = still.length === 0 && second.status === 0;
    listFailures("×", still);
    if (still.length === 0) listFailures("unsteady:", failures);
  }
  writeFileSync(reportFile("all"), JSON.stringify(report));
  const counts = countsOf(report);
  const because = counts.failed > 0 ? "tests, above is why" : "something outside of the tests, above is what";
  return { passed, because, counts };
}

/** One run of vitest; its report is null when it left none. */
async function vitest(name: string, args: readonly string[]): Promise<{ status: number; report: Report | null }> {
  const file = reportFile(name);
  const started = reportFile(`${name}-files`);
  const reporters = [
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${file}`,
    `--reporter=${FILES_REPORTER}`,
  ];
  const settings = { [STARTED_FILES]: started };
  const { status } = await run("", process.execPath, [...VITEST, ...reporters, ...args], "inherit", settings);
  if (!existsSync(file) || !existsSync(started)) return { status, report: null };
  const files = JSON.parse(readFileSync(started, "utf8")) as StartedFiles;
  return { status, report: withFilesThatDidNotRun(readReport(file), files) };
}

function reportFile(name: string): string {
  return join(reports, `${name}.json`);
}

function readReport(file: string): Report {
  return JSON.parse(readFileSync(file, "utf8")) as Report;
}

function haveDoublesPassed(): boolean {
  if (!existsSync(reportFile("all"))) return false;
  const { testResults } = readReport(reportFile("all"));
  const files = testResults.filter(({ name }) => relative(process.cwd(), name).startsWith(DOUBLES));
  return files.length > 0 && files.every(({ status }) => status === "passed");
}

/** Prints the failed tests, because vitest's own report is far above: of each file the first with its message. */
function listFailures(mark: string, failures: readonly Failure[]): void {
  for (const [file, [first, ...others]] of Map.groupBy(failures, (failure) => failure.file)) {
    const own = stripVTControlCharacters(first?.message ?? "")
      .split("\n")
      .filter((line) => !line.includes("node_modules"));
    const lines = own.slice(0, SHOWN_LINES);
    console.log(`\n${mark} ${file}: ${first?.test}${lines.map((line) => `\n  ${line.slice(0, 300)}`).join("")}`);
    for (const { test, message } of others) console.log(`  and ${test}: ${message.split("\n", 1)[0]?.slice(0, 120)}`);
  }
}

/** Runs a script of package.json; its output is printed when it has ended. */
async function check(heading: string, script: string, settings?: NodeJS.ProcessEnv): Promise<Outcome> {
  const { status, output } = await run(heading, "npm", ["run", "--silent", script], "pipe", settings);
  console.log(`\n== ${heading}${status === 0 ? ": passed" : ""}\n${output.trimEnd()}`);
  return { passed: status === 0, because: `${heading.toLowerCase()}, above is why` };
}

function end({ passed, because, counts = { passed: 0, failed: 0, skipped: 0 } }: Outcome): void {
  const seconds = Math.round((Date.now() - started) / 1000);
  const time = `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  console.log(`\n${passed ? "PASSED" : "FAILED"} after ${time}${passed ? "" : `: ${because}`}`);
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exitCode = passed ? 0 : 1;
}

function run(
  heading: string,
  command: string,
  args: readonly string[],
  stdio: "inherit" | "pipe",
  settings?: NodeJS.ProcessEnv,
): Promise<{ status: number; output: string }> {
  if (stdio === "inherit" && heading) console.log(`\n== ${heading}`);
  // The Worker's log is checked by the tests themselves.
  const env = { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "error", ...settings };
  const child = spawn(command, args, { stdio: ["ignore", stdio, stdio], env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (output += text));
  return new Promise((resolve) => {
    child.once("error", (error) => resolve({ status: 1, output: error.message }));
    child.once("close", (status) => resolve({ status: status ?? 1, output }));
  });
}
