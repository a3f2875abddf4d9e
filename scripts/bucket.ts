/** Copies `STATE_DIR/files` to the local bucket FILES. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { R2Bucket } from "@cloudflare/workers-types";
import { getPlatformProxy } from "wrangler";
import type { LocalFile } from "./files.ts";

/** Call only while no process serves the data in `dataDir`. */
export async function fillBucket(dataDir: string, files: readonly LocalFile[]): Promise<void> {
  await withBucket(dataDir, async (bucket) => {
    const held = await etags(bucket);
    for (const { key, path, md5 } of files) {
      // The etag of an object that was put as a whole is the MD5 of its content.
      if (held.get(key) !== md5) await bucket.put(key, readFileSync(path));
      held.delete(key);
    }
    for (const key of held.keys()) await bucket.delete(key);
  });
}

/** Opens the local bucket of wrangler's dev server under `dataDir`. */
export async function withBucket<T>(dataDir: string, use: (bucket: R2Bucket) => Promise<T>): Promise<T> {
  const { env, dispose } = await getPlatformProxy<{ FILES: R2Bucket }>({
    // With the whole wrangler.toml it would report missing classes of objects.
    configPath: fileURLToPath(import.meta.resolve("./files.toml")),
    persist: { path: join(dataDir, "v3") },
    envFiles: [],
  });
  try {
    return await use(env.FILES);
  } finally {
    await dispose();
  }
}

async function etags(bucket: R2Bucket): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  let cursor: string | undefined;
  do {
    const page = await bucket.list(cursor ? { cursor } : {});
    for (const { key, etag } of page.objects) found.set(key, etag);
    cursor = page.truncated ? page.cursor : undefined;
  } while (cursor);
  return found;
}
