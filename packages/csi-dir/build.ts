/** Bundles the driver into one file. */
import { build } from "esbuild";

await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/main.ts"],
  outfile: "dist/sallyport-csi-dir.mjs",
  bundle: true,
  minify: true,
  platform: "node",
  format: "esm",
  target: "node20",
  // CommonJS packages load Node's modules through `require`.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  logLevel: "info",
});
