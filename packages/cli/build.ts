/** Bundles the command line into one file. */
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/main.ts"],
  outfile: "dist/sallyport.mjs",
  bundle: true,
  minify: true,
  platform: "node",
  format: "esm",
  target: "node20",
  // CommonJS packages load Node's modules through `require`.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  logLevel: "info",
});

// npm links a command when it installs the package, and only if the file is there; the bundle is built later.
try {
  symlinkSync("../sallyport/dist/sallyport.mjs", join(import.meta.dirname, "../../node_modules/.bin/sallyport"));
} catch (failure) {
  if ((failure as NodeJS.ErrnoException).code !== "EEXIST") throw failure;
}
