/**
 * `npm run test:long`: runs every suite in turn, including the long ones, regardless of failures. `npm run test:long --
 * faults` runs only the named suites. Prints one verdict per suite; the exit code is 1 unless all have passed.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Stage {
  readonly name: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const STAGES: readonly Stage[] = [
  { name: "test", args: ["run", "test:all"], env: { CLIENTS_GO: "1", LONG_TESTS: "1", DOUBLES: "always" } },
  { name: "faults", args: ["run", "test:faults"], env: { FAULTS_KILLS: "60", FAULTS_SECONDS: "480" } },
  { name: "rollout", args: ["run", "test:faults"], env: { FAULTS_FROM: dayBefore(), FAULTS_SECONDS: "120" } },
  { name: "abuse", args: ["run", "test:abuse"] },
  { name: "mutations", args: ["run", "test:mutations"] },
];
/** Output of the suites, one file each, some megabytes. */
const LOGS = ".long-run";

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !STAGES.some((stage) => stage.name === name));
if (unknown.length > 0) {
  console.error(`No suite ${unknown.join(", ")}; there are ${STAGES.map(({ name }) => name).join(", ")}.`);
  process.exit(1);
}

mkdirSync(LOGS, { recursive: true });
const verdicts = STAGES.filter(({ name }) => wanted.length === 0 || wanted.includes(name)).map(run);
console.log();
for (const { line } of verdicts) console.log(line);
process.exit(verdicts.every(({ passed }) => passed) ? 0 : 1);

/** The newest commit that is a day older than the present one: what a gradual deployment replaces. */
function dayBefore(): string {
  const git = (...args: string[]) => spawnSync("git", args, { encoding: "utf8" }).stdout.trim();
  const day = Number(git("show", "-s", "--format=%ct", "HEAD")) - 86_400;
  return git("rev-list", "-1", `--before=${day}`, "HEAD") || "HEAD";
}

function run({ name, args, env }: Stage): { readonly passed: boolean; readonly line: string } {
  const file = join(LOGS, `${name}.log`);
  const log = openSync(file, "w", 0o600);
  const began = performance.now();
  console.log(`${name}: npm ${args.join(" ")}, its output is in ${file}`);
  // Settings of the environment take precedence: FAULTS_SEED, MUTATIONS_JOBS and the like.
  const { status, signal } = spawnSync("npm", args, { stdio: ["ignore", log, log], env: { ...env, ...process.env } });
  const minutes = ((performance.now() - began) / 60_000).toFixed(1);
  const last = readFileSync(file, "utf8").trimEnd().split("\n").at(-1) ?? "";
  const verdict = status === 0 ? "PASSED" : `FAILED (${signal ?? status})`;
  const line = `${verdict} ${name} in ${minutes} min: ${last.slice(0, 200)}`;
  console.log(line);
  return { passed: status === 0, line };
}
