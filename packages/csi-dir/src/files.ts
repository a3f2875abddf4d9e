import { open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "./refusal.ts";

/** What a call does, step by step; tests slow it down or end the process there. */
export type Step = (name: string) => Promise<void>;

/** Makes entries of a directory survive a power cut. */
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

/** Replaces a file at once: a reader, also after a crash, finds the old content or the new. `scratch` is on the same disk. */
export async function replaceFile(path: string, content: string, scratch: string): Promise<void> {
  await writeSynced(scratch, content);
  await rename(scratch, path);
  await syncDirectory(dirname(path));
}

/** Undefined when there is none. */
export const readIfThere = (path: string): Promise<string | undefined> => unlessMissing(readFile(path, "utf8"));

export async function unlessMissing<T>(looked: Promise<T>): Promise<T | undefined> {
  try {
    return await looked;
  } catch (failure) {
    if (codeOf(failure) === "ENOENT" || codeOf(failure) === "ENOTDIR") return undefined;
    throw failure;
  }
}
