#!/usr/bin/env node
// The command `sallyport` of a checkout: bundles the program when a file is newer than the bundle that has it, and runs
// it. Plain JavaScript, because it runs on the machine's own Node; the bundler runs on the `node` dependency.
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const DIST = join(ROOT, "dist");
const BUNDLE = join(DIST, "sallyport.mjs");

const changedAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

const isBuilt = () => {
  const builtAt = changedAt(BUNDLE);
  try {
    // Of build.ts: the bundle's own sources, and the versions of its packages.
    const inputs = JSON.parse(readFileSync(join(DIST, "inputs.json"), "utf8"));
    return builtAt > 0 && inputs.every((path) => changedAt(join(ROOT, path)) <= builtAt);
  } catch {
    return false;
  }
};

if (!isBuilt()) {
  // The program's output stays its own: what the bundler prints is shown only when it fails.
  const { status, stderr, error } = spawnSync(
    join(ROOT, "../../node_modules/node/bin/node"),
    [join(ROOT, "build.ts")],
    { stdio: ["ignore", "ignore", "pipe"], encoding: "utf8" },
  );
  if (status !== 0) {
    const text = `${error?.message ?? ""}${stderr ?? ""}`.trim();
    console.error(
      /EACCES|EROFS|EPERM|permission denied|read-only file system/i.test(text)
        ? `sallyport: the program must be bundled, and ${DIST} cannot be written: run it once as the owner of the checkout.`
        : `sallyport: the program cannot be bundled (is \`npm ci\` done?): ${text}`,
    );
    process.exit(1);
  }
}
await import(new URL("../dist/sallyport.mjs", import.meta.url));
