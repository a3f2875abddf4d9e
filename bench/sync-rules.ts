/**
 * `node bench/sync-rules.ts [aws|google] [SECRETS…]`: one rule over so many secrets, against a double that throttles at the
 * provider's quota: time to match, memory of the process, the latency of a single change while the others are on their
 * way, and the share of the quota that pushes use from the rule's write to the last push.
 */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startCloudC } from "../test/doubles/cloud-c-sm/server.ts";
import { clock } from "./sync-clock.ts";
import { Double, SECRETS, type Service, secretOf, startService } from "./sync-sides.ts";

const WRITERS = 16;
/** Single changes: one for so many secrets, at most. */
const SECRETS_A_SINGLE = 25;
const SINGLES = 200;
/** Time between single changes. */
const PAUSE_MS = 400;
/** Secrets that are changed before their first push carry another mark. */
const WHOLE = 0.9;
const POLL_MS = 20;
const MEBI = 1024 * 1024;

interface RuleState {
  readonly status: string;
  readonly progress: { readonly matched: number; readonly applied: number };
}

/** A provider as the bench sees it. */
interface Provider {
  /** Settings of the service that lead its calls here. */
  readonly settings: Readonly<Record<string, string>>;
  /** Makes a destination. @returns its path */
  destination(service: Service, name: string): Promise<string>;
  /** When the value with a mark arrived. */
  arrival(secret: string, mark: string): Promise<number>;
  /** Waits for the first values of nearly all secrets. @returns the share of the quota since a time, and throttled calls */
  used(secrets: number, since: number, singles: number): Promise<{ share: number; throttled: number }>;
  close(): Promise<void> | void;
}

/** AWS Secrets Manager: 50 calls a second of an account and region for each operation, one call a push. */
async function aws(): Promise<Provider> {
  const quota = 50;
  const double = await Double.start();
  await double.throttle(quota);
  return {
    settings: double.settings,
    destination: async (service, name) => `cloud-a-sm/${(await service.destinations(name, 1))[0]}`,
    arrival: async (_secret, mark) => (await double.complete(mark, 1)).arrivals[0] ?? Number.NaN,
    async used(secrets, since, singles) {
      const { arrivals, throttled } = await double.complete("filled", Math.ceil(secrets * WHOLE));
      const span = (arrivals.reduce((most, at) => Math.max(most, at), 0) - since) / 1_000;
      return { share: (arrivals.length + singles) / span / quota, throttled };
    },
    close: () => double.stop(),
  };
}

/** Google Secret Manager: 600 writes a minute of a project, two a push; the double counts each write of the last minute. */
async function google(): Promise<Provider> {
  const perMinute = 600;
  const double = await startCloudC({ writesPerMinute: perMinute, writesPerSecret: 10_000 });
  let account = "";
  const isWrite = ({ operation }: { operation: string | null }) => operation !== null && WRITES.has(operation);
  return {
    settings: { CLOUD_C_SM_URL: double.url, CLOUD_C_TOKEN_URL: double.tokenUrl },
    async destination(service, name) {
      const opened = await double.openAccount();
      account = opened.account;
      const body = { credentials: JSON.stringify(opened.credentials), secret_name_template: "{{ .SecretPath }}" };
      await service.ask("PUT", `/v1/sys/sync/destinations/cloud-c-sm/${name}`, body);
      return `cloud-c-sm/${name}`;
    },
    async arrival(secret, mark) {
      const name = secret.replaceAll("/", "-");
      for (;;) {
        const found = double.secrets(account).find((one) => one.name === name);
        if (found?.value?.includes(mark)) return clock();
        await sleep(POLL_MS);
      }
    },
    async used(secrets, since) {
      while (double.secrets(account).filter(({ value }) => value !== null).length < secrets) await sleep(10 * POLL_MS);
      const seconds = (clock() - since) / 1_000;
      const requests = double.requests(account);
      const throttled = requests.filter(({ status }) => status === 429).length;
      const writes = requests.filter((one) => isWrite(one) && one.status === 200).length;
      return { share: writes / seconds / (perMinute / 60), throttled };
    },
    close: () => double.close(),
  };
}

const WRITES: ReadonlySet<string> = new Set([
  "CreateSecret",
  "UpdateSecret",
  "AddSecretVersion",
  "DestroySecretVersion",
]);

async function fill(service: Service, folder: string, secrets: number): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    for (let at = next++; at < secrets; at = next++) {
      await service.ask("PUT", `${SECRETS}${folder}/k${at}`, { data: secretOf("filled") });
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

async function measure(service: Service, provider: Provider, secrets: number): Promise<string> {
  const folder = `r${secrets}`;
  await fill(service, folder, secrets);
  const destination = await provider.destination(service, folder);
  const at = `/v1/sys/sync/destinations/${destination}/rules/all`;
  const state = async () => (JSON.parse(await service.ask("GET", at, undefined)) as { data: RuleState }).data;
  const before = service.server.memory() ?? 0;
  const cpu = service.server.cpu() ?? Number.NaN;
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
  const singles = Math.min(SINGLES, Math.floor(secrets / SECRETS_A_SINGLE));
  for (let single = 0; single < singles; single++) {
    await sleep(PAUSE_MS);
    const mark = randomUUID();
    const name = `${folder}/k${Math.floor(Math.random() * secrets)}`;
    const written = clock();
    await service.ask("PUT", `${SECRETS}${name}`, { data: secretOf(mark) });
    latencies.push((await provider.arrival(name, mark)) - written);
  }
  const { share, throttled } = await provider.used(secrets, began, singles);
  const grown = ((service.server.memory() ?? 0) - before) / MEBI;
  latencies.sort((one, other) => one - other);
  const latency = (part: number) => (latencies[Math.ceil(latencies.length * part) - 1] ?? Number.NaN).toFixed(0);
  const shown = [
    read.progress.matched,
    (matchedMs / 1_000).toFixed(2),
    (appliedMs / 1_000).toFixed(2),
    grown.toFixed(0),
    latency(0.5),
    latency(0.99),
    latency(1),
    share.toFixed(2),
    throttled,
    ((service.server.cpu() ?? Number.NaN) - cpu).toFixed(0),
  ];
  return `| ${shown.join(" | ")} |`;
}

process.chdir(join(import.meta.dirname, ".."));
const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-rules-"));
const sizes = process.argv.slice(2).map(Number).filter(Number.isInteger);
const provider = await (process.argv[2] === "google" ? google() : aws());
const service = await startService(dir, provider.settings, true);
try {
  const rows = [
    "| Secrets | Match, s | Set, s | Memory, MiB | Change p50, ms | p99, ms | max, ms | Share of the quota | Throttled calls | CPU, s |",
    "|---|---|---|---|---|---|---|---|---|---|",
  ];
  for (const secrets of sizes.length > 0 ? sizes : [1_000, 10_000, 100_000]) {
    rows.push(await measure(service, provider, secrets));
    console.log(rows.at(-1));
  }
  console.log(rows.join("\n"));
} finally {
  service.server.stop();
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
}
