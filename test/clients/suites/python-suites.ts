import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import * as z from "zod";
import { pythonEnvironment, runsPip } from "../python.ts";

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

/** Runs the tests that clients' source distributions hold, unmodified, with a Python environment of its own. */
export class PythonSuites {
  readonly #dir = mkdtempSync(join(tmpdir(), "sallyport-suites-"));

  /** Installs the clients, what their tests need, and the tests. @returns why that fails; null when it does not */
  install(): string | null {
    const pip = pythonEnvironment(join(this.#dir, "venv"));
    if (pip === null) return "there is no python3 with venv";
    const clients = ["-r", resolve("test/clients/requirements.txt")];
    const quiet = ["--quiet", "--retries", "0", "--timeout", "20"];
    const sources = join(this.#dir, "sources");
    mkdirSync(sources);
    for (const args of [
      ["install", ...quiet, ...clients, "-r", resolve(HERE, "requirements.txt")],
      ["download", ...quiet, "--no-deps", "--no-binary", ":all:", "--dest", sources, ...clients],
    ])
      if (!runsPip(pip, args, INSTALL_MS)) return `pip cannot ${args[0]} the clients`;
    for (const archive of readdirSync(sources)) {
      const unpacked = spawnSync(this.#bin("python"), ["-m", "tarfile", "-e", archive], { cwd: sources });
      if (unpacked.status !== 0) return `${archive} cannot be unpacked`;
    }
    return null;
  }

  /** @throws Error when the suite itself cannot run */
  async run(name: SuiteName, address: string, token: string): Promise<SuiteResult[]> {
    const { plugin, options, tests } = SUITES[name];
    const sources = join(this.#dir, "sources");
    const folder = readdirSync(sources).find(
      (entry) => entry.replaceAll("_", "-").startsWith(`${name}-`) && !entry.endsWith(".gz"),
    );
    if (folder === undefined) throw new Error(`no source of ${name}`);
    const cwd = join(sources, folder);
    mkdirSync(join(cwd, "tests/config_files/generated"), { recursive: true });
    const results = join(this.#dir, `${name}.jsonl`);
    const args = ["-m", "pytest", "-p", "record", "-p", plugin, "-p", "no:cacheprovider", "-q", ...options, tests];
    const child = spawn(this.#bin("python"), args, {
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

  remove(): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }

  #bin(program: string): string {
    return join(this.#dir, "venv/bin", program);
  }
}
