import { open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "./log.ts";

/** Syncs a directory, so that its entries survive a power failure. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Replaces a file atomically: readers find the old or the new content, also after a crash. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const next = `${path}.next`;
  const file = await open(next, "w", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, path);
  await syncDirectory(dirname(path));
}

/** A file's text; undefined without a file. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (failure) {
    if (codeOf(failure) === "ENOENT") return undefined;
    throw failure;
  }
}
