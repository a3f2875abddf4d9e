/** Bundles the agent into the single file that is installed on nodes. */
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
  // CommonJS packages load Node's modules through `require`.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  // Optional native addons of ws.
  external: ["bufferutil", "utf-8-validate"],
  logLevel: "info",
});
