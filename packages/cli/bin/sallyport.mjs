#!/usr/bin/env node
// The command `sallyport` of a checkout: bundles the program when its sources are newer than the bundle, and runs it.
// Plain JavaScript, because it runs on the machine's own Node; the bundler runs on the `node` dependency.
import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BUNDLE = join(ROOT, "dist/sallyport.mjs");
/** Folders whose files are in the bundle. */
const SOURCES = ["src", "../relay/src", "../../scripts", "../../src/contracts"];

const changedAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

const isBuilt = () => {
  const builtAt = changedAt(BUNDLE);
  return SOURCES.every((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true }).every(
      (name) => changedAt(join(ROOT, folder, name)) <= builtAt,
    ),
  );
};

if (!isBuilt()) {
  // The program's output stays its own: what the bundler prints is shown only when it fails.
  execFileSync(join(ROOT, "../../node_modules/node/bin/node"), [join(ROOT, "build.ts")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
}
await import(new URL("../dist/sallyport.mjs", import.meta.url));
