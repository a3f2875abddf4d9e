/** Bundles the command line into one file, and lists its sources beside it, by which bin/sallyport.mjs sees a change. */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const dist = join(import.meta.dirname, "dist");
const unfinished = join(dist, `${process.pid}.mjs`);

const { metafile } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/main.ts"],
  outfile: unfinished,
  bundle: true,
  minify: true,
  platform: "node",
  format: "esm",
  target: "node20",
  // CommonJS packages load Node's modules through `require`.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  logLevel: "info",
  metafile: true,
});

// Packages change with the lock file.
const sources = Object.keys(metafile.inputs).filter((path) => !/(?:^|\/)node_modules\/|^[(<]/.test(path));
const inputs = [...sources, "build.ts", "../../package-lock.json"];
writeFileSync(`${unfinished}.json`, JSON.stringify(inputs, null, 2));
// Before the bundle, which is then older than a source that only the new list has.
renameSync(`${unfinished}.json`, join(dist, "inputs.json"));
// A command that starts meanwhile runs a whole bundle.
renameSync(unfinished, join(dist, "sallyport.mjs"));
