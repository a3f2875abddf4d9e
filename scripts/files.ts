/** `STATE_DIR/files`, which `npm start` copies to the bucket FILES, because a Worker has no file system. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { MAX_FILE_BYTES, MAX_KEY_BYTES } from "../src/sync/configuration/file-limits.ts";
import { Refusal } from "./settings.ts";

export interface LocalFile {
  /** Its path in the folder, with `/` on every system. */
  key: string;
  path: string;
  md5: string;
}

/** Every regular file in `dir`, or none when there is no such folder. @throws Refusal for an unusable file */
export function localFiles(dir: string): LocalFile[] {
  try {
    return existsSync(dir) ? filesIn(dir) : [];
  } catch (failure) {
    if (failure instanceof Error && "code" in failure) throw new Refusal(`${dir} cannot be read: ${failure.message}.`);
    throw failure;
  }
}

function filesIn(dir: string): LocalFile[] {
  const root = realpathSync(dir);
  return [...pathsIn(root)].sort().map((path) => {
    const key = relative(root, path).replaceAll(sep, "/");
    const { size } = statSync(path);
    if (size > MAX_FILE_BYTES) throw new Refusal(`${join(dir, key)} has ${size} bytes; at most 1 MiB is taken.`);
    if (Buffer.byteLength(key) > MAX_KEY_BYTES) {
      throw new Refusal(`${join(dir, key)}: a path there may have at most ${MAX_KEY_BYTES} bytes.`);
    }
    return { key, path, md5: createHash("md5").update(readFileSync(path)).digest("hex") };
  });
}

/**
 * A link counts as its target, because secrets may be mounted by links, unless the target is outside of `root`. Folders
 * are read one by one because Node's `recursive` follows links to folders, and does not end in a cycle.
 */
function* pathsIn(root: string, dir = root): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* pathsIn(root, path);
    else if (entry.isFile() || (entry.isSymbolicLink() && leadsToFileIn(root, path))) yield path;
  }
}

const leadsToFileIn = (root: string, path: string): boolean =>
  existsSync(path) && realpathSync(path).startsWith(root + sep) && statSync(path).isFile();

/** Version of the current files, which differs after any change. Undefined without files. */
export function filesVersion(files: readonly LocalFile[]): string | undefined {
  if (files.length === 0) return undefined;
  const hash = createHash("sha256");
  for (const { key, md5 } of files) hash.update(`${key}\0${md5}\0`);
  return hash.digest("hex").slice(0, 16);
}
