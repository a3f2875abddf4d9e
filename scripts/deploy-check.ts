/**
 * `npm run deploy:check`: reports size, parts and start-up time of a deployment without deploying. Warns when
 * wrangler.toml names a missing database or does not keep the whole audit log. Needs neither account nor network.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { unstable_readConfig } from "wrangler";
import { QUIET_WRANGLER } from "./runtime.ts";

/** Budget of the whole Worker, compressed. The platform takes much more (docs/operate/deploy.md), but starts it later. */
export const BUDGET_KIB = 1024;
/** Budget of the top level of all modules on an idle machine. The platform's limit is a second. */
export const STARTUP_MS = 100;
/** Start-ups measured by `fastestStartup` at most: a machine with other work makes single ones slow. */
const STARTUP_TRIES = 5;

/** The id in the repository's wrangler.toml, with which the service runs locally. */
const LOCAL_DATABASE = /^0{8}-0{4}-0{4}-0{4}-0{11}1$/;

interface Part {
  /** A package, or a folder of src/. */
  readonly name: string;
  readonly bytes: number;
}

export interface Bundle {
  readonly kib: number;
  readonly gzipKib: number;
  /** Minified, not compressed; the largest first. */
  readonly parts: readonly Part[];
  /** The file that would be uploaded. */
  readonly path: string;
}

/** Bundles the Worker into `dir` as `wrangler deploy` would upload it. */
export async function bundle(dir: string): Promise<Bundle> {
  const path = join(dir, "worker.bundle");
  const meta = join(dir, "meta.json");
  const said = await wrangler(
    "deploy",
    "--dry-run",
    "--outdir",
    join(dir, "out"),
    "--outfile",
    path,
    "--metafile",
    meta,
  );
  const [, kib, gzipKib] = /Total Upload: ([\d.]+) KiB \/ gzip: ([\d.]+) KiB/.exec(said) ?? [];
  if (!gzipKib) throw new Error(`wrangler did not say how large the Worker is:\n${said}`);
  return { kib: Number(kib), gzipKib: Number(gzipKib), parts: partsIn(readFileSync(meta, "utf8")), path };
}

/** The shortest start-up of a few, in ms; ends at the first within `budgetMs`. */
export async function fastestStartup(built: Bundle, budgetMs = STARTUP_MS): Promise<number> {
  let fastest = Number.POSITIVE_INFINITY;
  for (let n = 0; n < STARTUP_TRIES && fastest > budgetMs; n++) fastest = Math.min(fastest, await startup(built));
  return fastest;
}

/** The part of a CPU profile that is read here. */
interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: { readonly functionName: string } }[];
  readonly samples: readonly number[];
  /** In µs, one for each sample. */
  readonly timeDeltas: readonly number[];
}

/** Frames of the runtime's own start, which is the same for every Worker. */
const NOT_OURS = new Set(["(root)", "(program)", "(idle)"]);

/** Time in which the runtime runs the top level of all modules, garbage collection included, in ms. */
async function startup({ path }: Bundle): Promise<number> {
  const file = `${path}.cpuprofile`;
  await wrangler("check", "startup", "--worker", path, "--outfile", file);
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, "utf8")) as Profile;
  const others = new Set(nodes.filter(({ callFrame }) => NOT_OURS.has(callFrame.functionName)).map(({ id }) => id));
  const us = timeDeltas.filter((_, at) => !others.has(samples[at] ?? 0)).reduce((sum, delta) => sum + delta, 0);
  if (!(us > 0)) throw new Error("The profile of the Worker's start-up holds no sample of it.");
  return us / 1000;
}

/** Its figure and its ten largest parts, as lines. */
export const described = ({ kib, gzipKib, parts }: Bundle): string =>
  [
    `The Worker: ${gzipKib} KiB compressed, of ${BUDGET_KIB}; ${kib} KiB as it is. Its largest parts, in KiB, not compressed:`,
    ...parts.slice(0, 10).map(({ name, bytes }) => `  ${(bytes / 1024).toFixed(1).padStart(6)}  ${name}`),
  ].join("\n");

/** Reasons against deploying this configuration, in sentences. */
export const obstacles = (databases: readonly { binding: string; database_id?: string | undefined }[]): string[] =>
  databases
    .filter(({ database_id = "" }) => database_id === "" || LOCAL_DATABASE.test(database_id))
    .map(
      ({ binding }) => `wrangler.toml: the database ${binding} needs the id that \`wrangler d1 create\` has printed.`,
    );

/** The part of wrangler.toml that decides which lines of the audit log stay. */
interface AuditConfig {
  readonly r2_buckets: readonly { readonly binding: string }[];
  readonly queues: { readonly producers?: readonly { readonly binding: string }[] | undefined };
  readonly vars: Readonly<Record<string, unknown>>;
  readonly observability?:
    | { readonly logs?: { readonly head_sampling_rate?: number | undefined } | undefined }
    | undefined;
}

/** Says that the audit log is stored in part, in words for the operator; null when all of it is. */
export function partialAuditLog({ r2_buckets, queues, vars, observability }: AuditConfig): string | null {
  const bound = [...r2_buckets, ...(queues.producers ?? [])].map(({ binding }) => binding);
  const hasSink = bound.includes("AUDIT_BUCKET") || bound.includes("AUDIT_QUEUE") || Boolean(vars["AUDIT_HTTP_URL"]);
  const rate = observability?.logs?.head_sampling_rate ?? 1;
  if (hasSink || rate >= 1) return null;
  return (
    `WARNING: THE AUDIT LOG IS A SAMPLE. It has no sink, and the platform stores the lines of ${rate * 100} % of the ` +
    "requests. Bind AUDIT_BUCKET in wrangler.toml (docs/operate/audit.md#sinks), or set head_sampling_rate to 1."
  );
}

/** The part of esbuild's report that is read here. */
interface Report {
  readonly outputs: Readonly<Record<string, { readonly inputs: Readonly<Record<string, { bytesInOutput: number }>> }>>;
}

function partsIn(report: string): Part[] {
  const bytes = new Map<string, number>();
  for (const { inputs } of Object.values((JSON.parse(report) as Report).outputs))
    for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
      const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? file.split("/").slice(0, 2).join("/");
      bytes.set(name, (bytes.get(name) ?? 0) + bytesInOutput);
    }
  return [...bytes].map(([name, size]) => ({ name, bytes: size })).sort((a, b) => b.bytes - a.bytes);
}

async function wrangler(...args: string[]): Promise<string> {
  const child = spawn(process.execPath, ["--no-warnings", fileURLToPath(import.meta.resolve("wrangler")), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "log", NO_COLOR: "1" },
  });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  if (code !== 0) throw new Error(`wrangler ${args.join(" ")}:\n${out}${err}`);
  return out;
}

async function main(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-deploy-"));
  try {
    const built = await bundle(dir);
    console.log(described(built));
    const ms = await fastestStartup(built);
    // Not an obstacle: a busy machine alone makes it slow.
    const late = ms > STARTUP_MS ? ": over its budget, or the machine is slow or busy" : "";
    console.log(`Its top level took ${ms.toFixed(0)} ms here, of ${STARTUP_MS}${late}.`);
    const config = unstable_readConfig({ config: "wrangler.toml" });
    const problems = obstacles(config.d1_databases);
    if (built.gzipKib > BUDGET_KIB) problems.push(`The Worker is over its budget of ${BUDGET_KIB} KiB.`);
    const notice = partialAuditLog(config);
    for (const said of [...problems, ...(notice ? [notice] : [])]) console.error(said);
    process.exitCode = problems.length > 0 ? 1 : 0;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

if (import.meta.main) await main();
