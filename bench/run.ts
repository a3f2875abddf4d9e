/** `npm run bench [-- --quick] [-- --json FILE]`: how much of what the platform gives is left, measured against a bare Worker. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Loader } from "./loader.ts";
import { markdown, type Report } from "./report.ts";
import { Bench, loaderBusy, type Scale } from "./scenarios.ts";
import { type Side, startBare, startOurs } from "./sides.ts";

const FULL: Scale = { rounds: 5, sliceMs: 600, keys: { small: 1_000, large: 100_000 }, fillMs: 90_000 };
const QUICK: Scale = { rounds: 3, sliceMs: 300, keys: { small: 1_000, large: 10_000 }, fillMs: 10_000 };
const LIMIT_MS = 240_000;

const { values: options } = parseArgs({
  options: { quick: { type: "boolean", default: false }, json: { type: "string" } },
});
const scale = options.quick ? QUICK : FULL;
const began = performance.now();
process.chdir(join(import.meta.dirname, ".."));

const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-"));
const loader = new Loader();
const sides: Side[] = [];
/** Runs on every way out: nothing may be left running or lying around. */
process.on("exit", () => {
  loader.stop();
  for (const side of sides) side.server.stop();
  rmSync(dir, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));
setTimeout(() => {
  console.error(`bench: took longer than ${LIMIT_MS / 1000} s; the machine is too busy for figures that mean anything`);
  process.exit(1);
}, LIMIT_MS).unref();

try {
  const load = loadavg()[0] ?? 0;
  const ours = await startOurs(dir);
  sides.push(ours);
  const bare = await startBare(dir);
  sides.push(bare);
  const bench = new Bench(loader, [ours, bare], scale, note);
  const largeKeys = await bench.fill();
  const comparison = [...(await bench.keyValue("GET")), ...(await bench.keyValue("PUT")), ...(await bench.streams())];
  const growth = await bench.growth(largeKeys);
  const report: Report = {
    date: new Date().toISOString().slice(0, 10),
    versions: { workerd: installed("workerd"), wrangler: installed("wrangler"), node: process.versions.node },
    machine: { cores: availableParallelism(), memoryGiB: Math.round(totalmem() / 2 ** 30), load },
    scale: { rounds: scale.rounds, sliceMs: scale.sliceMs, smallKeys: scale.keys.small, largeKeys },
    loaderBusy: loaderBusy.most,
    seconds: (performance.now() - began) / 1000,
    comparison,
    growth,
  };
  console.log(markdown(report));
  if (options.json) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();

function note(text: string): void {
  if (process.stderr.isTTY) console.error(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
}

function installed(name: string): string {
  return (JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8")) as { version: string }).version;
}
