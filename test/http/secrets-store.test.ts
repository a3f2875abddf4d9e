import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { Miniflare as Runtime } from "miniflare";
import { afterAll, beforeAll, expect, it } from "vitest";

/* `src/platform/crypto/master-key.ts` with the binding of the Secrets Store in the real runtime. */

const require = createRequire(fileURLToPath(import.meta.resolve("wrangler")));
const { build } = require("esbuild") as typeof import("esbuild");
const { Miniflare, convertV4MiniflareOptions } = require("miniflare") as typeof import("miniflare");

const WORKER = `
import { loadMasterKey, masterKey } from "./src/platform/crypto/master-key.ts";
export default { async fetch(_request, env) {
  await loadMasterKey(env);
  try { return new Response(masterKey(env)); } catch ({ message }) { return new Response(message, { status: 503 }); }
} };`;

let runtime: Runtime;
beforeAll(async () => {
  const { outputFiles } = await build({
    stdin: { contents: WORKER, resolveDir: "." },
    bundle: true,
    write: false,
    format: "esm",
    external: ["node:*", "cloudflare:*"],
  });
  const options = convertV4MiniflareOptions({
    modules: true,
    script: outputFiles[0]?.text ?? "",
    compatibilityDate: "2026-10-01",
    secretsStoreSecrets: { MASTER_KEY: { store_id: "store", secret_name: "sallyport-master-key" } },
  });
  runtime = new Miniflare(options);
});
afterAll(() => runtime.dispose());

it("MASTER_KEY of the Secrets Store is read, and is sealed until it is there", async () => {
  const answer = async () => {
    const response = await runtime.dispatchFetch("http://localhost/");
    return [response.status, await response.text()];
  };
  expect(await answer()).toEqual([503, "sealed: MASTER_KEY cannot be read from its Secrets Store binding"]);
  const secrets = (await runtime.getSecretsStoreSecretAPI("MASTER_KEY"))();
  await secrets.create("the-value");
  expect(await answer()).toEqual([200, "the-value"]);
});
