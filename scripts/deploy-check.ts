/**
 * `npm run deploy:check`: what would be deployed, without deploying it: how large it is, of what it consists, how long it takes
 * to start, and whether wrangler.toml still names a database that does not exist. Needs neither an account nor a network.
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

/** What all of the Worker may be, compressed. The platform would take much more (docs/deploy.md), but not start it as fast. */
export const BUDGET_KIB = 300;
/** The platform refuses a Worker whose top level takes longer than a second; until October 2025 it was this. */
export const STARTUP_MS = 400;

/** The id in the repository's wrangler.toml, with which the service runs locally. */
const LOCAL_DATABASE = /^0{8}-0{4}-0{4}-0{4}-0{11}1$/;

export interface Part {
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

/** How long the top level of all modules runs in the runtime, on this machine, in ms. */
export async function startup({ path }: Bundle): Promise<number> {
  const said = await wrangler("check", "startup", "--worker", path, "--outfile", `${path}.cpuprofile`);
  const [, active, unit] = /Active: ([\d.]+) (ms|s|µs)/.exec(said) ?? [];
  if (!active) throw new Error(`wrangler did not say how long the Worker takes to start:\n${said}`);
  return Number(active) * (unit === "s" ? 1000 : unit === "ms" ? 1 : 0.001);
}

/** Its figure and its ten largest parts, as lines. */
export const described = ({ kib, gzipKib, parts }: Bundle): string =>
  [
    `The Worker: ${gzipKib} KiB compressed, of ${BUDGET_KIB}; ${kib} KiB as it is. Its largest parts, in KiB, not compressed:`,
    ...parts.slice(0, 10).map(({ name, bytes }) => `  ${(bytes / 1024).toFixed(1).padStart(6)}  ${name}`),
  ].join("\n");

/** What keeps this configuration from being deployed, in sentences. */
export const obstacles = (databases: readonly { binding: string; database_id?: string | undefined }[]): string[] =>
  databases
    .filter(({ database_id = "" }) => database_id === "" || LOCAL_DATABASE.test(database_id))
    .map(
      ({ binding }) => `wrangler.toml: the database ${binding} needs the id that \`wrangler d1 create\` has printed.`,
    );

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
    console.log(`Its top level took ${(await startup(built)).toFixed(0)} ms here.`);
    const problems = obstacles(unstable_readConfig({ config: "wrangler.toml" }).d1_databases);
    if (built.gzipKib > BUDGET_KIB) problems.push(`The Worker is over its budget of ${BUDGET_KIB} KiB.`);
    for (const problem of problems) console.error(problem);
    process.exitCode = problems.length > 0 ? 1 : 0;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

if (import.meta.main) await main();
