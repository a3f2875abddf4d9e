import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import * as z from "zod";
import { keptEnvironment, QUIET, REQUIREMENTS, runsPip } from "../python.ts";

const INSTALL_MS = 400_000;
const HERE = "test/clients/suites";

const result = z.object({ test: z.string(), outcome: z.enum(["passed", "failed", "skipped"]), error: z.string() });

/** The outcome of one test of a foreign suite. */
export type SuiteResult = z.infer<typeof result>;

export type SuiteName = "hvac" | "python-nomad";

/** The plugin that connects a suite to a service, its own options, and the folder of its tests. */
const SUITES = {
  hvac: { plugin: "hvac_service", options: ["-o", "addopts="], tests: "tests/integration_tests" },
  "python-nomad": { plugin: "nomad_service", options: [], tests: "tests" },
} as const satisfies Record<SuiteName, object>;

/** Adds the tests to an environment, which the clients' source distributions hold. @returns why that fails */
function addSources(dir: string, pip: readonly string[]): string | null {
  const sources = join(dir, "sources");
  mkdirSync(sources);
  const args = ["download", ...QUIET, "--no-deps", "--no-binary", ":all:", "--dest", sources, "-r", REQUIREMENTS];
  if (!runsPip(pip, args, INSTALL_MS)) return "pip cannot download the clients";
  for (const archive of readdirSync(sources)) {
    const unpacked = spawnSync("python3", ["-m", "tarfile", "-e", archive], { cwd: sources });
    if (unpacked.status !== 0) return `${archive} cannot be unpacked`;
    rmSync(join(sources, archive));
  }
  return null;
}

/** Runs the tests that clients' source distributions hold, unmodified, with a Python environment of their own. */
export class PythonSuites {
  readonly #kept = keptEnvironment("suites", [REQUIREMENTS, `${HERE}/requirements.txt`], addSources);
  readonly #dir = mkdtempSync(join(tmpdir(), "sallyport-suites-"));

  /** Why they cannot run on this machine; null when they can. */
  get missing(): string | null {
    return this.#kept.missing;
  }

  /** @throws Error when the suite itself cannot run */
  async run(name: SuiteName, address: string, token: string): Promise<SuiteResult[]> {
    const { plugin, options, tests } = SUITES[name];
    const sources = join(this.#kept.dir, "sources");
    const folder = readdirSync(sources).find((entry) => entry.replaceAll("_", "-").startsWith(`${name}-`));
    if (folder === undefined) throw new Error(`no source of ${name}`);
    // A copy: the tests write beside themselves.
    const cwd = join(this.#dir, folder);
    cpSync(join(sources, folder), cwd, { recursive: true });
    mkdirSync(join(cwd, "tests/config_files/generated"), { recursive: true });
    const results = join(this.#dir, `${name}.jsonl`);
    const args = ["-m", "pytest", "-p", "record", "-p", plugin, "-p", "no:cacheprovider", "-q", ...options, tests];
    const child = spawn(join(this.#kept.dir, "venv/bin/python"), args, {
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        PYTHONDONTWRITEBYTECODE: "1",
        PYTHONPATH: [resolve(HERE), cwd].join(delimiter),
        SUITE_ADDRESS: address,
        SUITE_TOKEN: token,
        SUITE_RESULTS: results,
      },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
    const [code] = await once(child, "close");
    // 0: every test has passed; 1: some have failed. Anything else is a run that did not take place.
    if (code !== 0 && code !== 1) throw new Error(`pytest ended with ${code}: ${output.slice(-2_000)}`);
    return readFileSync(results, "utf8")
      .trim()
      .split("\n")
      .map((line) => result.parse(JSON.parse(line)));
  }

  close(): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
