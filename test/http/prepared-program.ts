import { existsSync, mkdirSync, renameSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

/** The bundler that builds the agent. */
const { buildSync } = createRequire(resolve("agent/package.json"))("esbuild") as typeof import("esbuild");

/** Set by vitest.config.ts, a folder of one run. */
const kept = process.env["PREPARED"];

/**
 * The file to start an entry point with. The first caller of a run bundles it: hundreds of processes are started, and
 * the bundle needs half the CPU time until it serves.
 */
export function programOf(entry: string): string {
  if (!kept) return entry;
  const file = join(kept, `${entry.replaceAll("/", "-")}.mjs`);
  if (existsSync(file)) return file;
  mkdirSync(kept, { recursive: true });
  const made = `${file}.${process.pid}`;
  buildSync({
    entryPoints: [entry],
    outfile: made,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    // As in the builds of agent and driver: CommonJS packages load Node's modules through `require`.
    banner: {
      js: 'import { createRequire, flushCompileCache } from "node:module"; const require = createRequire(import.meta.url);',
    },
    // Most programs are killed, and a compile cache is otherwise written at the end of a process.
    footer: { js: "flushCompileCache();" },
    external: ["bufferutil", "utf-8-validate"],
    logLevel: "error",
  });
  renameSync(made, file);
  return file;
}
