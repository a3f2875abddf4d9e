import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { QUIET_WRANGLER } from "../../scripts/runtime.ts";
import type { Mutation } from "./mutation.ts";
import { mutated } from "./tables.ts";

/** How a run of test files ended. A run that takes too long counts as failed: the change made the code hang. */
export interface SuiteRun {
  readonly passed: boolean;
  readonly seconds: number;
  readonly output: string;
}

/** A copy of the working tree, in which one mutation at a time is applied and judged. */
export class Checkout {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
    rmSync(root, { recursive: true, force: true });
    const tracked = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    for (const file of execFileSync("git", tracked, { encoding: "utf8", maxBuffer: 2 ** 26 }).split("\0")) {
      if (!file) continue;
      mkdirSync(dirname(join(root, file)), { recursive: true });
      cpSync(file, join(root, file));
    }
    // Hard links where the file system has them: links of the workspace packages are relative and lead into the copy.
    execFileSync("sh", [
      "-c",
      'cp -al node_modules "$0" 2>/dev/null || cp -a node_modules "$0"',
      join(root, "node_modules"),
    ]);
  }

  /** Runs the suites with the mutation applied, and takes it back. */
  async judge(row: Mutation, mostSeconds: number): Promise<SuiteRun> {
    const path = join(this.#root, row.file);
    const source = readFileSync(path, "utf8");
    const changed = mutated(source, row);
    if ("fault" in changed) throw new Error(`${row.file}: ${changed.fault}`);
    writeFileSync(path, changed.source);
    try {
      return await this.run(row.suites, mostSeconds);
    } finally {
      writeFileSync(path, source);
    }
  }

  run(suites: readonly string[], mostSeconds: number): Promise<SuiteRun> {
    const started = Date.now();
    const vitest = ["node_modules/vitest/vitest.mjs", "run", "--bail=1", "--maxWorkers=1", "--reporter=dot", ...suites];
    const child = spawn(process.execPath, vitest, {
      cwd: this.#root,
      env: { ...process.env, ...QUIET_WRANGLER, WRANGLER_LOG: "error", NO_COLOR: "1" },
      stdio: ["ignore", "pipe", "pipe"],
      // A separate process group, so that runtimes and agents of the tests end with it.
      detached: true,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output = (output + text).slice(-20_000);
      });
    }
    const end = () => {
      try {
        process.kill(-(child.pid ?? 0), "SIGKILL");
      } catch {
        // The group has ended already.
      }
    };
    const timer = setTimeout(end, mostSeconds * 1000);
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => {
        clearTimeout(timer);
        end();
        resolve({ passed: code === 0, seconds: (Date.now() - started) / 1000, output });
      });
    });
  }

  remove(): void {
    rmSync(this.#root, { recursive: true, force: true });
  }
}
