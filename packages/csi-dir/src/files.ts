import { open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "./refusal.ts";

/** Called after each step of a call; tests delay or kill the process there. */
export type Step = (name: string) => Promise<void>;

/** Syncs a directory, so that its entries survive a power failure. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

export async function writeSynced(path: string, content: string): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Replaces a file atomically: readers find the old or the new content, also after a crash.
 * @param scratch a path on the same disk
 */
export async function replaceFile(path: string, content: string, scratch: string): Promise<void> {
  await writeSynced(scratch, content);
  await rename(scratch, path);
  await syncDirectory(dirname(path));
}

/** Undefined without a file. */
export const readIfThere = (path: string): Promise<string | undefined> => unlessMissing(readFile(path, "utf8"));

export async function unlessMissing<T>(looked: Promise<T>): Promise<T | undefined> {
  try {
    return await looked;
  } catch (failure) {
    if (codeOf(failure) === "ENOENT" || codeOf(failure) === "ENOTDIR") return undefined;
    throw failure;
  }
}
