/**
 * Bundles the Worker for `npm start`, migrates its database and fills its bucket. The runtime starts from this output, so
 * that it runs the same code when it is restarted after changes of the checkout. A separate process, because wrangler is
 * large and not needed later.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { unstable_getMiniflareWorkerOptions, unstable_readConfig } from "wrangler";
import { fillBucket } from "./bucket.ts";
import { recordBuild } from "./built-worker.ts";
import { migrate } from "./migrate.ts";
import type { FromBuild, ToBuild } from "./runtime.ts";

/** The bundler included in wrangler. */
const esbuild = createRequire(fileURLToPath(import.meta.resolve("wrangler")))("esbuild") as typeof import("esbuild");

process.once("message", (message: ToBuild) => void build(message));
process.once("disconnect", () => process.exit());

async function build({ dir, dataDir, files, migrations, config: path = "wrangler.toml" }: ToBuild): Promise<void> {
  try {
    const begun = Date.now();
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    // Not the secrets, which wrangler would look for in the environment: bindings arrive when the runtime starts.
    const { secrets: _, ...config } = unstable_readConfig({ config: path });
    const { workerOptions, main } = unstable_getMiniflareWorkerOptions(config);
    const { metafile } = await esbuild.build({
      entryPoints: [main ?? ""],
      outfile: join(dir, "worker.js"),
      bundle: true,
      format: "esm",
      platform: "browser",
      target: "es2024",
      conditions: ["workerd", "worker", "browser"],
      external: ["cloudflare:*", "node:*"],
      keepNames: true,
      sourcemap: "linked",
      metafile: true,
      logLevel: "silent",
    });
    writeFileSync(
      join(dir, "worker.json"),
      JSON.stringify({ ...workerOptions, name: config.name, rootPath: resolve(".") }),
    );
    if (path === "wrangler.toml") recordBuild(dir, Object.keys(metafile.inputs), begun);
    if (migrations) await migrate(dataDir, workerOptions.d1Databases);
    if (files) await fillBucket(dataDir, files);
    tell({ built: true });
  } catch (failure) {
    tell({ failure: failure instanceof Error ? failure.message : String(failure) });
  }
}

function tell(message: FromBuild): void {
  process.send?.(message, undefined, {}, () => process.exit());
}
