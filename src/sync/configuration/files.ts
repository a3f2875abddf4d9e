import { ok, type Result, refuse } from "../../lib/result.ts";
import { MAX_FILE_BYTES, MAX_KEY_BYTES } from "./file-limits.ts";

/**
 * Reads the file named by `value`, an `@` and a path, from the bucket `FILES`. Each namespace has a separate folder
 * in the bucket, and no path leads out of it. Costs one read of the bucket.
 */
export async function resolveFile(env: Env, namespace: string, value: string): Promise<Result<string>> {
  const path = value.replace(/^@\/*/, "");
  if (/[\p{Cc}\p{Cs}]/u.test(path)) return refuse("invalid", "credentials: a path after @ holds no control characters");
  if (path.split("/").some((segment) => segment === "" || segment === "." || segment === "..")) {
    return refuse("invalid", "credentials: a path after @ has no empty segments, and none that are . or ..");
  }
  const key = namespace + path;
  if (new TextEncoder().encode(key).byteLength > MAX_KEY_BYTES) {
    return refuse("invalid", `credentials: a path after @, with its namespace, has at most ${MAX_KEY_BYTES} bytes`);
  }
  if (!env.FILES) return refuse("invalid", `credentials: no bucket is bound as FILES, where ${key} was to be read`);
  const object = await env.FILES.get(key);
  if (!object) return refuse("invalid", `credentials: the bucket FILES holds no object ${key}`);
  if (object.size > MAX_FILE_BYTES) {
    await object.body.cancel();
    return refuse("invalid", `credentials: the object ${key} in the bucket FILES is larger than 1 MiB`);
  }
  try {
    // Decoding drops a byte order mark, which JSON parsers refuse.
    return ok(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(await object.arrayBuffer()));
  } catch (failure) {
    if (!(failure instanceof TypeError)) throw failure;
    return refuse("invalid", `credentials: the object ${key} in the bucket FILES is not UTF-8 text`);
  }
}
