/** `npm run bench [-- PART…] [-- --quick] [-- --json FILE]`: the cost of the service, measured against a bare Worker. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeSection } from "./page.ts";
import { PART_NAMES, PARTS, type PartName, type Stage } from "./parts.ts";
import { loaderBusy } from "./rounds.ts";

const LIMIT_MS = 1_200_000;
/** Each part of the rows has a limit of its own. */
const ROWS_LIMIT_MS = 3_600_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    deep: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    minutes: { type: "string" },
    json: { type: "string" },
  },
});
const unknown = positionals.find((part) => !PART_NAMES.some((known) => known === part));
if (unknown !== undefined) {
  console.error(`bench: there is no part ${JSON.stringify(unknown)}; the parts are ${PART_NAMES.join(", ")}`);
  process.exit(2);
}
const minutes = options.minutes === undefined ? null : Number(options.minutes);
if (minutes !== null && !(minutes > 0)) {
  console.error("bench: --minutes must be a number above 0");
  process.exit(2);
}
const all = positionals.length === 0;
const parts = PART_NAMES.filter((part) => all || positionals.includes(part));
/** The page has the results of a whole run; partial runs only print. */
const writes = options.write || (all && !options.quick);
process.chdir(join(import.meta.dirname, ".."));

const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-"));
const running: { stop(): void }[] = [];
const stopAll = () => {
  for (const one of running.splice(0)) one.stop();
};
/** Runs at every exit: no process and no file may remain. */
process.on("exit", () => {
  stopAll();
  rmSync(dir, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

const reports: Partial<Record<PartName, unknown>> = {};
try {
  for (const part of parts) {
    const soakMs = part === "soak" ? (minutes ?? 0) * 60_000 : 0;
    const ownLimitMs = part === "rows" ? ROWS_LIMIT_MS : LIMIT_MS;
    const limit = setTimeout(tooLong, soakMs + ownLimitMs);
    loaderBusy.most = 0;
    const { report, markdown, plots, isSkipped } = await PARTS[part](stage());
    clearTimeout(limit);
    stopAll();
    reports[part] = report;
    console.log(markdown);
    if (writes && !isSkipped) writeSection(part, markdown, plots);
  }
  if (options.json) writeFileSync(options.json, `${JSON.stringify(reports, null, 2)}\n`);
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();

function stage(): Stage {
  const began = performance.now();
  const load = loadavg()[0] ?? 0;
  const stops: Stage["stops"] = (one) => {
    running.push(one);
    return one;
  };
  return {
    dir,
    quick: options.quick,
    deep: options.deep,
    minutes,
    stops,
    serves: async (side) => {
      const served = await side;
      stops(served.server);
      return served;
    },
    note(text) {
      if (!process.stderr.isTTY && !process.env["BENCH_NOTES"]) return;
      console.error(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
    },
    info: () => ({
      date: new Date().toISOString().slice(0, 10),
      versions: { workerd: installed("workerd"), wrangler: installed("wrangler"), node: process.versions.node },
      machine: {
        processor: cpus()[0]?.model.trim() ?? "",
        cores: availableParallelism(),
        memoryGiB: Math.round(totalmem() / 2 ** 30),
        load,
      },
      seconds: (performance.now() - began) / 1000,
    }),
  };
}

function tooLong(): never {
  console.error("bench: took too long; the machine is too busy for figures that mean anything");
  process.exit(1);
}

function installed(name: string): string {
  return (JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8")) as { version: string }).version;
}
