/**
 * `node bench/sync-rules.ts [SECRETS…]`: one rule over so many secrets, against a double that throttles at the quota of AWS
 * Secrets Manager: time to match, memory of the process, the latency of a single change while the others are on their
 * way, and the share of the quota that pushes use.
 */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { clock } from "./sync-clock.ts";
import { Double, SECRETS, type Service, secretOf, startService } from "./sync-sides.ts";

/** Calls a second of an account and region for each operation (AWS Secrets Manager, quotas). */
const QUOTA = 50;
const WRITERS = 16;
const SINGLES = 40;
/** Time between single changes. */
const PAUSE_MS = 400;
/** Secrets that are changed before their first push carry another mark. */
const WHOLE = 0.9;
const MEBI = 1024 * 1024;

interface RuleState {
  readonly status: string;
  readonly progress: { readonly matched: number; readonly applied: number };
}

async function fill(service: Service, folder: string, secrets: number): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    for (let at = next++; at < secrets; at = next++) {
      await service.ask("PUT", `${SECRETS}${folder}/k${at}`, { data: secretOf("filled") });
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

async function measure(service: Service, double: Double, secrets: number): Promise<string> {
  const folder = `r${secrets}`;
  await fill(service, folder, secrets);
  const [destination = ""] = await service.destinations(folder, 1);
  const at = `/v1/sys/sync/destinations/cloud-a-sm/${destination}/rules/all`;
  const state = async () => (JSON.parse(await service.ask("GET", at, undefined)) as { data: RuleState }).data;
  const before = service.server.memory() ?? 0;
  const began = clock();
  await service.ask("PUT", at, { mount: "kv", path_prefix: `${folder}/`, max_secrets: 100_000 });
  let read = await state();
  while (read.status === "scanning") {
    await sleep(100);
    read = await state();
  }
  const matchedMs = clock() - began;
  // A secret whose association is not set yet has no push that a change could overtake.
  while (read.progress.applied < read.progress.matched) {
    await sleep(100);
    read = await state();
  }
  const appliedMs = clock() - began;
  const latencies: number[] = [];
  for (let single = 0; single < SINGLES; single++) {
    await sleep(PAUSE_MS);
    const mark = randomUUID();
    const secret = Math.floor(Math.random() * secrets);
    const written = clock();
    await service.ask("PUT", `${SECRETS}${folder}/k${secret}`, { data: secretOf(mark) });
    const { arrivals } = await double.complete(mark, 1);
    latencies.push((arrivals[0] ?? Number.NaN) - written);
  }
  const { arrivals, throttled } = await double.complete("filled", Math.ceil(secrets * WHOLE));
  const span = (arrivals.reduce((most, at) => Math.max(most, at), 0) - began) / 1_000;
  const rate = (arrivals.length + SINGLES) / span;
  const grown = ((service.server.memory() ?? 0) - before) / MEBI;
  latencies.sort((one, other) => one - other);
  const shown = [
    read.progress.matched,
    (matchedMs / 1_000).toFixed(2),
    (appliedMs / 1_000).toFixed(2),
    grown.toFixed(0),
    (latencies[Math.floor(latencies.length / 2)] ?? 0).toFixed(0),
    (latencies.at(-1) ?? 0).toFixed(0),
    (rate / QUOTA).toFixed(2),
    throttled,
  ];
  return `| ${shown.join(" | ")} |`;
}

process.chdir(join(import.meta.dirname, ".."));
const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-rules-"));
const sizes = process.argv.slice(2).map(Number);
const double = await Double.start();
const service = await startService(dir, double, true);
try {
  await double.throttle(QUOTA);
  const rows = [
    "| Secrets | Match, s | Set, s | Memory, MiB | Change p50, ms | Change max, ms | Share of the quota | Throttled calls |",
    "|---|---|---|---|---|---|---|---|",
  ];
  for (const secrets of sizes.length > 0 ? sizes : [1_000, 10_000, 100_000]) {
    rows.push(await measure(service, double, secrets));
    console.log(rows.at(-1));
  }
  console.log(rows.join("\n"));
} finally {
  service.server.stop();
  double.stop();
  rmSync(dir, { recursive: true, force: true });
}
