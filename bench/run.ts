/** `npm run bench [-- PART…] [-- --quick] [-- --json FILE]`: how much of what the platform gives is left, measured against a bare Worker. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CsiBench, type CsiScale } from "./csi.ts";
import { CsiPlugin } from "./csi-plugin.ts";
import { type CsiReport, csiMarkdown } from "./csi-report.ts";
import { EngineBench, type EngineScale } from "./engine.ts";
import { type EngineReport, engineMarkdown } from "./engine-report.ts";
import { CloudDouble, startBareCloud, startEngines } from "./engine-sides.ts";
import { EventsBench, type EventsScale } from "./events.ts";
import { type EventsReport, eventsMarkdown } from "./events-report.ts";
import { Loader } from "./loader.ts";
import { type Facts, markdown, type Report } from "./report.ts";
import { loaderBusy } from "./rounds.ts";
import { Bench, type Scale } from "./scenarios.ts";
import { startBare, startOurs } from "./sides.ts";
import { SyncBench, type SyncScale } from "./sync.ts";
import { type SyncReport, syncMarkdown } from "./sync-report.ts";
import { Double, startLoop, startService } from "./sync-sides.ts";
import { VolumesBench, type VolumesScale } from "./volumes.ts";
import { type VolumesReport, volumesMarkdown } from "./volumes-report.ts";
import { Load, startBareSockets, startCluster } from "./volumes-sides.ts";

const FULL: Scale = { rounds: 5, sliceMs: 600, keys: { small: 1_000, large: 100_000 }, fillMs: 90_000 };
const QUICK: Scale = { rounds: 3, sliceMs: 300, keys: { small: 1_000, large: 10_000 }, fillMs: 10_000 };
const SYNC_FULL: SyncScale = { rounds: 7, secrets: 100, singles: 50, pauses: 5, pending: [1_000, 10_000, 30_000] };
const SYNC_QUICK: SyncScale = { rounds: 3, secrets: 50, singles: 20, pauses: 3, pending: [1_000, 4_000] };
const ENGINE_FULL: EngineScale = {
  ...{ rounds: 5, sliceMs: 600, slowSliceMs: 800, sizes: [100, 10_000] },
  ...{ ending: 10_000, spreadsMs: [60_000, 0] },
};
const ENGINE_QUICK: EngineScale = {
  ...{ rounds: 3, sliceMs: 300, slowSliceMs: 600, sizes: [100, 10_000] },
  ...{ ending: 1_000, spreadsMs: [6_000, 0] },
};
const EVENTS_FULL: EventsScale = {
  ...{ rounds: 5, sliceMs: 600, streams: [1, 100, 1_000, 5_000], backlog: 100_000, oneIn: 1_000 },
};
const EVENTS_QUICK: EventsScale = {
  ...{ rounds: 3, sliceMs: 400, streams: [1, 100, 1_000], backlog: 20_000, oneIn: 1_000 },
};
const VOLUMES_FULL: VolumesScale = {
  ...{ rounds: 5, sliceMs: 300, agents: 1_000, heldMs: 60_000, sizes: [1_000, 10_000, 100_000] },
  ...{ queries: 5_000, waitedMs: 30_000 },
};
const VOLUMES_QUICK: VolumesScale = {
  ...{ rounds: 3, sliceMs: 300, agents: 200, heldMs: 12_000, sizes: [1_000, 10_000] },
  ...{ queries: 1_000, waitedMs: 2_000 },
};
const CSI_FULL: CsiScale = {
  ...{ rounds: 5, sliceMs: 600, atOnce: 500, external: 10_000, page: 500, sizes: [1_000, 100_000] },
};
const CSI_QUICK: CsiScale = {
  ...{ rounds: 3, sliceMs: 300, atOnce: 100, external: 2_000, page: 500, sizes: [1_000, 10_000] },
};
const DEEP = 100_000;
const PARTS = ["kv", "sync", "engine", "events", "volumes", "csi"] as const;
const LIMIT_MS = 300_000;
const DEEP_LIMIT_MS = 900_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    deep: { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const unknown = positionals.find((part) => !PARTS.some((known) => known === part));
if (unknown !== undefined) {
  console.error(`bench: there is no part ${JSON.stringify(unknown)}; the parts are ${PARTS.join(", ")}`);
  process.exit(2);
}
const parts = PARTS.filter((part) => positionals.length === 0 || positionals.includes(part));
let began = performance.now();
process.chdir(join(import.meta.dirname, ".."));

const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-"));
const running: { stop(): void }[] = [];
const started = <T extends { stop(): void }>(one: T): T => {
  running.push(one);
  return one;
};
const stopAll = () => {
  for (const one of running.splice(0)) one.stop();
};
/** Runs on every way out: nothing may be left running or lying around. */
process.on("exit", () => {
  stopAll();
  rmSync(dir, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(130));

const runs = { kv: runKv, sync: runSync, engine: runEngine, events: runEvents, volumes: runVolumes, csi: runCsi };
const reports: Partial<Record<(typeof PARTS)[number], unknown>> = {};
try {
  for (const part of parts) {
    began = performance.now();
    const limit = setTimeout(tooLong, options.deep ? DEEP_LIMIT_MS : LIMIT_MS);
    reports[part] = await runs[part]();
    clearTimeout(limit);
    stopAll();
  }
  if (options.json) writeFileSync(options.json, `${JSON.stringify(reports, null, 2)}\n`);
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();

async function runKv(): Promise<Report> {
  const scale = options.quick ? QUICK : FULL;
  const load = loadavg()[0] ?? 0;
  const loader = started(new Loader());
  const ours = await startOurs(dir);
  started(ours.server);
  const bare = await startBare(dir);
  started(bare.server);
  const bench = new Bench(loader, [ours, bare], scale, note);
  const largeKeys = await bench.fill();
  const comparison = [...(await bench.keyValue("GET")), ...(await bench.keyValue("PUT"))];
  const growth = await bench.growth(largeKeys);
  const report: Report = {
    ...facts(load),
    scale: { rounds: scale.rounds, sliceMs: scale.sliceMs, smallKeys: scale.keys.small, largeKeys },
    loaderBusy: loaderBusy.most,
    comparison,
    growth,
  };
  console.log(markdown(report));
  return report;
}

async function runSync(): Promise<SyncReport> {
  const scale = { ...(options.quick ? SYNC_QUICK : SYNC_FULL) };
  if (options.deep) scale.pending = [...scale.pending, DEEP];
  const load = loadavg()[0] ?? 0;
  const loader = started(new Loader());
  const double = started(await Double.start());
  const service = await startService(dir, double);
  started(service.server);
  const loop = await startLoop(dir, double);
  started(loop.server);
  const sync = await new SyncBench({ loader, service, loop, double }, scale, note).run();
  const report = { ...facts(load), scale, sync };
  console.log(syncMarkdown(report));
  return report;
}

async function runEngine(): Promise<EngineReport> {
  const standard = options.quick ? ENGINE_QUICK : ENGINE_FULL;
  const scale: EngineScale = options.deep ? { ...standard, sizes: [...standard.sizes, DEEP] } : standard;
  const load = loadavg()[0] ?? 0;
  const loader = started(new Loader());
  const double = started(await CloudDouble.start());
  const service = await startEngines(dir, double);
  started(service.server);
  const bare = await startBareCloud(dir, double);
  started(bare.server);
  const engine = await new EngineBench({ loader, service, bare, double }, scale, note).run();
  const report = { ...facts(load), scale, engine };
  console.log(engineMarkdown(report));
  return report;
}

async function runEvents(): Promise<EventsReport> {
  const scale = options.quick ? EVENTS_QUICK : EVENTS_FULL;
  const load = loadavg()[0] ?? 0;
  const loader = started(new Loader());
  const ours = await startOurs(dir);
  started(ours.server);
  const bare = await startBare(dir);
  started(bare.server);
  loaderBusy.most = 0;
  const events = await new EventsBench(loader, [ours, bare], scale, note).run();
  const report = { ...facts(load), scale, loaderBusy: loaderBusy.most, events };
  console.log(eventsMarkdown(report));
  return report;
}

async function runVolumes(): Promise<VolumesReport> {
  const scale = options.quick ? VOLUMES_QUICK : VOLUMES_FULL;
  const loadBefore = loadavg()[0] ?? 0;
  const load = started(new Load());
  const ours = await startCluster(dir, "main", process.env["BENCH_INSPECTOR"]);
  started(ours.server);
  const bare = await startBareSockets(dir);
  started(bare.server);
  const filled = async (rows: number) => {
    const service = await startCluster(dir, String(rows));
    started(service.server);
    return service;
  };
  loaderBusy.most = 0;
  const volumes = await new VolumesBench({ load, ours, bare, filled }, scale, note).run();
  const report = { ...facts(loadBefore), scale, loaderBusy: loaderBusy.most, volumes };
  console.log(volumesMarkdown(report));
  return report;
}

async function runCsi(): Promise<CsiReport> {
  const scale = options.quick ? CSI_QUICK : CSI_FULL;
  const load = loadavg()[0] ?? 0;
  const service = await startCluster(dir, "csi", process.env["BENCH_INSPECTOR"]);
  started(service.server);
  const plugin = started(await CsiPlugin.start());
  await plugin.serve(service);
  const filled = async (rows: number) => {
    const other = await startCluster(dir, `csi-${rows}`);
    started(other.server);
    return other;
  };
  loaderBusy.most = 0;
  const csi = await new CsiBench({ plugin, service, filled }, scale, note).run();
  const report = { ...facts(load), scale, loaderBusy: loaderBusy.most, csi };
  console.log(csiMarkdown(report));
  return report;
}

function facts(load: number): Facts {
  return {
    date: new Date().toISOString().slice(0, 10),
    versions: { workerd: installed("workerd"), wrangler: installed("wrangler"), node: process.versions.node },
    machine: { cores: availableParallelism(), memoryGiB: Math.round(totalmem() / 2 ** 30), load },
    seconds: (performance.now() - began) / 1000,
  };
}

function tooLong(): never {
  console.error("bench: took too long; the machine is too busy for figures that mean anything");
  process.exit(1);
}

function note(text: string): void {
  if (process.stderr.isTTY || process.env["BENCH_NOTES"]) {
    console.error(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
  }
}

function installed(name: string): string {
  return (JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8")) as { version: string }).version;
}
