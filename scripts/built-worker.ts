/**
 * The bundled Worker of a state, with a record of its sources. A start whose sources are those of the record uses the
 * bundle again: to build it takes two seconds of processor time, to compare it 60 ms. Written by the process that builds,
 * read by `boot`.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const RECORD = "sources.json";
const OUTPUTS = ["worker.js", "worker.js.map", "worker.json"];
/** Files that decide on the bundle and are no part of it: the versions of packages, and the settings of the bundler. */
const OTHERS = ["package-lock.json", "tsconfig.json", "wrangler.toml", "scripts/build-child.ts"];

/** The files in a directory that a later start may use. */
export const BUILT: readonly string[] = [RECORD, ...OUTPUTS];

interface Sources {
  readonly inputs: readonly string[];
  readonly version: string;
}

/**
 * Records the bundle in `dir` with its sources, unless one has changed since the build began.
 * @param inputs relative to the working directory @param begun in ms since 1970
 */
export function recordBuild(dir: string, inputs: readonly string[], begun: number): void {
  if (inputs.some((path) => statSync(path).mtimeMs >= begun)) return;
  const sources: Sources = { inputs, version: versionOf(dir, inputs) };
  writeFileSync(join(dir, RECORD), JSON.stringify(sources), { mode: 0o600 });
}

/** Whether the bundle in `dir` is whole, and built of the sources as they are now. */
export function isBuilt(dir: string): boolean {
  try {
    const { inputs, version } = JSON.parse(readFileSync(join(dir, RECORD), "utf8")) as Sources;
    return versionOf(dir, inputs) === version;
  } catch {
    return false;
  }
}

/** Covers the outputs, too: after a power failure they may be incomplete. */
function versionOf(dir: string, inputs: readonly string[]): string {
  // The bundle names the directory, and wrangler's configuration may depend on this variable.
  const hash = createHash("sha256").update(`${resolve(".")}\0${process.env["CLOUDFLARE_ENV"] ?? ""}\0`);
  const others = OTHERS.filter((path) => existsSync(path));
  for (const path of [...others, ...inputs, ...OUTPUTS.map((name) => join(dir, name))])
    hash.update(`${path}\0`).update(createHash("sha256").update(readFileSync(path)).digest());
  return hash.digest("hex");
}
