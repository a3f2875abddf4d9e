/** Bundles the command line into one file. */
import { renameSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const dist = join(import.meta.dirname, "dist");
const unfinished = join(dist, `${process.pid}.mjs`);

await build({
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
});

// A command that starts meanwhile runs a whole bundle.
renameSync(unfinished, join(dist, "sallyport.mjs"));
