/**
 * `npm run test:mutations [-- AREA …]`: applies small wrong changes to the code, one at a time, and counts those that the
 * test suites notice. See docs/internals/mutations.md. MUTATIONS_ONLY=TEXT takes only rows whose file, function or text contains TEXT,
 * MUTATIONS_JOBS says how many run at once, MUTATIONS_REPORT names a file for the figures as JSON.
 */

import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Checkout } from "./checkout.ts";
import type { Mutation } from "./mutation.ts";
import { faultOfRow, mutationTables } from "./tables.ts";

const MIN_SCORE = 0.9;
const BASELINE_SECONDS = 900;
const FOLDER = ".mutations";

type Verdict = "killed" | "survived" | "equivalent" | "not equivalent" | "invalid";
interface Judged {
  readonly area: string;
  readonly row: Mutation;
  readonly verdict: Verdict;
  readonly why: string;
  readonly seconds: number;
}

const areas = process.argv.slice(2);
const only = process.env["MUTATIONS_ONLY"] ?? "";
const jobs = Number(process.env["MUTATIONS_JOBS"]) || Math.min(2, availableParallelism());

const tables = mutationTables();
for (const area of areas) {
  if (!tables.has(area)) throw new Error(`no area "${area}"; there are ${[...tables.keys()].join(", ")}`);
}
const queue = [...tables]
  .filter(([area]) => areas.length === 0 || areas.includes(area))
  .flatMap(([area, rows]) => rows.map((row) => ({ area, row })))
  .filter(({ row: { file, name, find } }) => [file, name, find].some((text) => text.includes(only)))
  // Rows with the same suites follow each other, so that their baseline is run once and at the right moment.
  .sort((a, b) => suitesOf(a.row).localeCompare(suitesOf(b.row)));
const total = queue.length;
/** Seconds that each set of suites takes without a change; null when they fail without one. */
const baselines = new Map<string, Promise<number | null>>();
const judged: Judged[] = [];

await Promise.all(Array.from({ length: Math.min(jobs, total) }, (_, index) => work(index)));
report();

async function work(index: number): Promise<void> {
  const checkout = new Checkout(join(FOLDER, String(index)));
  try {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const result = { ...next, ...(await judge(checkout, next.row)) };
      judged.push(result);
      const place = `${next.row.file}: ${next.row.name}: ${next.row.find.slice(0, 60)}`;
      console.log(`${judged.length}/${total} ${result.verdict} ${result.seconds.toFixed(0)} s ${place} ${result.why}`);
    }
  } finally {
    checkout.remove();
  }
}

async function judge(checkout: Checkout, row: Mutation): Promise<Pick<Judged, "verdict" | "why" | "seconds">> {
  const fault = faultOfRow(row, ".");
  if (fault) return { verdict: "invalid", why: fault, seconds: 0 };
  const key = suitesOf(row);
  const known = baselines.get(key) ?? checkout.run(row.suites, BASELINE_SECONDS).then(baselineOf);
  baselines.set(key, known);
  const baseline = await known;
  if (baseline === null) return { verdict: "invalid", why: "the suites fail without the change", seconds: 0 };
  const { passed, seconds } = await checkout.judge(row, 3 * baseline + 60);
  if (row.equivalent) return { verdict: passed ? "equivalent" : "not equivalent", why: row.equivalent, seconds };
  return { verdict: passed ? "survived" : "killed", why: passed ? row.promise : "", seconds };
}

function baselineOf({ passed, seconds, output }: { passed: boolean; seconds: number; output: string }): number | null {
  if (!passed) console.error(output);
  return passed ? seconds : null;
}

function suitesOf(row: Mutation): string {
  return [...row.suites].sort().join(" ");
}

function report(): void {
  const count = (verdict: Verdict, among: readonly Judged[] = judged) =>
    among.filter((each) => each.verdict === verdict).length;
  console.log("\n| area | mutants | killed | survived | equivalent |\n| --- | --: | --: | --: | --: |");
  for (const area of [...new Set(judged.map((each) => each.area))].sort()) {
    const rows = judged.filter((each) => each.area === area);
    console.log(
      `| ${area} | ${rows.length} | ${count("killed", rows)} | ${count("survived", rows)} | ${count("equivalent", rows)} |`,
    );
  }
  const [killed, survived] = [count("killed"), count("survived")];
  const score = killed / Math.max(1, killed + survived);
  for (const { verdict, row, why } of judged) {
    if (verdict !== "killed")
      console.log(`${verdict}: ${row.file}: ${row.name}: ${row.find} → ${row.replace}\n  ${why}`);
  }
  const wrong = count("invalid") + count("not equivalent");
  const file = process.env["MUTATIONS_REPORT"];
  if (file)
    writeFileSync(
      file,
      JSON.stringify({ total, killed, survived, equivalent: count("equivalent"), score, judged }, null, 1),
    );
  const passed = score >= MIN_SCORE && wrong === 0;
  console.log(
    `\n${passed ? "PASSED" : "FAILED"}: ${killed} of ${killed + survived} noticed (${(100 * score).toFixed(1)} %), ${wrong} rows wrong`,
  );
  process.exitCode = passed ? 0 : 1;
}
