/** Bundles the agent into the one file that is installed on nodes. */
import { build } from "esbuild";

await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/main.ts"],
  outfile: "dist/sallyport-agent.mjs",
  bundle: true,
  minify: true,
  platform: "node",
  format: "esm",
  target: "node20",
  // Packages written for `require` ask for Node's own modules by it.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  // Optional native parts of ws, which it does without.
  external: ["bufferutil", "utf-8-validate"],
  logLevel: "info",
});
